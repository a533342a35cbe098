"""The scripts that let a shell complete: short, for they ask the program itself (`candidates`)."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError

_BASH = r"""# bash completion of steelyard: source <(steelyard completion bash)
_steelyard() {
    local program=$1 found status
    COMPREPLY=()
    [ "${program#\~}" = "$program" ] || program=$HOME${program#\~}
    type -P -- "$program" >/dev/null 2>&1 || program=steelyard
    found=$(command "$program" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
    status=$?
    [ "$status" = 0 ] || [ "$status" = 3 ] || return 0
    local IFS=$'\n'
    set -f
    COMPREPLY=($found)
    set +f
    [ "$status" = 3 ] && compopt -o default 2>/dev/null
    return 0
}
complete -F _steelyard steelyard
"""
_ZSH = r"""#compdef steelyard
# zsh completion of steelyard: source <(steelyard completion zsh) after compinit, or _steelyard in fpath
_steelyard() {
    local found line answer
    local -a lines
    found=$(command "${(Q)words[1]}" __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)
    answer=$?
    [[ $answer == 0 || $answer == 3 ]] || return 1
    for line in "${(@f)found}"; do
        [[ -n $line ]] || continue
        if [[ $line == *$'\t'* ]]; then
            lines+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            lines+=("${line//:/\\:}")
        fi
    done
    (( ${#lines} )) && _describe -V 'steelyard' lines
    [[ $answer == 3 ]] && _files
    return 0
}
if [[ ${funcstack[1]} == _steelyard ]]; then
    _steelyard "$@"
else
    compdef _steelyard steelyard
fi
"""
_FISH = r"""# fish completion of steelyard, for ~/.config/fish/completions/steelyard.fish
function __steelyard_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    command $words[1] __complete fish $words[2..-1] "$current" 2>/dev/null </dev/null
    if test $status -eq 3
        __fish_complete_path "$current"
    end
end
complete -c steelyard -f -a '(__steelyard_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(session: Session, shell: Annotated[str, typer.Argument(metavar="SHELL")]) -> None:
    """The script of a shell."""
    if shell not in SCRIPTS:
        raise InvalidError("argument-invalid", name="SHELL", given=shell[:60], expected=" | ".join(SCRIPTS))
    session.emit({"shell": shell, "script": SCRIPTS[shell]}, lambda: session.line(SCRIPTS[shell].rstrip()))

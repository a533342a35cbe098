"""Two programs for the proof of isolation: one with secrets, one of another project that is after them.

Both run as members, by `python3 -c`, and see nothing of the tests' packages.
"""

from __future__ import annotations

#: Leaves a secret in every place that a program uses, says where, and waits. Arguments: the secret, a name.
VICTIM = r"""
import ctypes, json, os, socket, sys, time
secret, name = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
print('log', secret, flush=True)
for path in ('secret.txt', 'artifacts/secret.txt', f'/tmp/{name}', f'/var/tmp/{name}', f'/dev/shm/{name}'):
    with open(path, 'w') as file:
        file.write(secret)
    os.chmod(path, 0o666)
os.chmod('.', 0o777)
key = int(name[-6:], 36) & 0x7fffffff
segment = libc.shmget(key, 4096, 0o1666)
address = libc.shmat(segment, None, 0)
ctypes.memmove(address, secret.encode(), len(secret))
semaphores = libc.semget(key, 1, 0o1666)
queue = libc.msgget(key, 0o1666)
class Attr(ctypes.Structure):
    _fields_ = [('n', ctypes.c_long * 8)]
posix = -1
try:
    posix = libc.mq_open(f'/{name}'.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
except AttributeError:
    pass
port = socket.create_server(('127.0.0.1', 0))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind('\0' + name)
abstract.listen()
said = {'port': port.getsockname()[1], 'key': key}
with open('ready.tmp', 'w') as file:
    json.dump(said, file)
os.rename('ready.tmp', 'ready.json')
deadline = time.monotonic() + 60
while time.monotonic() < deadline and not os.path.exists('stop'):
    time.sleep(0.05)
libc.shmctl(segment, 0, None), libc.semctl(semaphores, 0, 0), libc.msgctl(queue, 0, None)
if posix >= 0:
    libc.mq_unlink(f'/{name}'.encode())
for path in (f'/tmp/{name}', f'/var/tmp/{name}', f'/dev/shm/{name}'):
    if os.path.exists(path):
        os.unlink(path)
"""

#: Tries everything and prints, as JSON, what it achieved: aspect → names of tries. Argument: what it was told
#: of the machine, as JSON: that is more than it could find out.
ATTACKER = r"""
import ctypes, json, os, signal, socket, stat, subprocess, sys
told = json.loads(sys.argv[1])
name, secret_hash = told['name'], told['secret_hash']
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.ptrace.restype = ctypes.c_long
achieved = {}
import hashlib
def holds(data):
    # whether bytes hold the secret; the attacker knows its hash, so that its own arguments don't
    for word in data.replace(b'\0', b' ').replace(b'=', b' ').replace(b'"', b' ').split():
        if hashlib.sha256(word).hexdigest() == secret_hash:
            return True
    return False
tried = {}
def attempt(aspect, what, act):
    tried.setdefault(aspect, []).append(what)
    try:
        if act():
            achieved.setdefault(aspect, []).append(what)
    except (OSError, ValueError, subprocess.SubprocessError, AttributeError):
        pass
def reads(path):
    with open(path, 'rb') as file:
        return holds(file.read(1 << 20))
def there(path):
    with open(path, 'rb') as file:
        return bool(file.read(1))
def writes(path):
    with open(path, 'w') as file:
        file.write('was here')
    return True
def lists(path):
    return bool(os.listdir(path))

# files
work = told['work']
attempt('files', 'work folder', lambda: reads(work + '/secret.txt'))
attempt('files', 'artifact', lambda: reads(work + '/artifacts/secret.txt'))
attempt('files', 'list of the work folder', lambda: lists(work))
attempt('files', 'write to the work folder', lambda: writes(work + '/planted'))
attempt('files', 'log', lambda: reads(told['log']))
def opens(path, how):
    os.close(os.open(path, how))
    return True
attempt('files', 'write to the log', lambda: opens(told['log'], os.O_WRONLY | os.O_APPEND))
attempt('files', 'work folder by link', lambda: (os.symlink(work, 'link'), reads('link/secret.txt'))[1])
attempt('files', 'hard link', lambda: (os.link(work + '/secret.txt', 'hard'), reads('hard'))[1])
for path in told['sealed']:
    attempt('files', 'sealed ' + os.path.basename(path), lambda: there(path))
attempt('files', 'list of the data folder', lambda: 'local' in os.listdir(told['data']))
def knock(path):
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(2)
        door.connect(path)
        door.sendall(b'{"id": 1, "op": "hello", "versions": [1, 2], "install": "in_x"}\n')
        return b'"ok":true' in door.recv(4096)
attempt('files', 'socket of the runner', lambda: knock(told['socket']))
for pid in (told['victim'], told['shim'], told['runner']):
    attempt('files', f'folder of process {pid}', lambda: reads(f'/proc/{pid}/root{work}/secret.txt'))
    attempt('files', f'cwd of process {pid}', lambda: reads(f'/proc/{pid}/cwd/secret.txt'))
    attempt('files', f'output of process {pid}', lambda: reads(f'/proc/{pid}/fd/1'))
for cover in (told['data'], '/tmp', '/proc', '/dev'):
    script = f'umount -l {cover}; cat {work}/secret.txt; echo; cat /tmp/{name}'
    command = ['unshare', '-Urm', 'sh', '-c', script]
    attempt('files', f'umount of {cover}', lambda: holds(
        subprocess.run(command, capture_output=True, timeout=10).stdout))

# processes
for who in ('victim', 'shim', 'runner'):
    pid = told[who]
    attempt('processes', f'environment of the {who}', lambda: there(f'/proc/{pid}/environ'))
    attempt('processes', f'command of the {who}', lambda: there(f'/proc/{pid}/cmdline'))
    attempt('processes', f'memory map of the {who}', lambda: there(f'/proc/{pid}/maps'))
    if who == 'victim':
        attempt('processes', 'ptrace', lambda: libc.ptrace(0x4206, pid, None, None) == 0)
    attempt('signals', f'signal to the {who}', lambda: os.kill(pid, signal.SIGCONT) is None)
    attempt('signals', f'signal to the group of the {who}', lambda: os.killpg(pid, signal.SIGCONT) is None)
attempt('processes', 'list of processes', lambda: any(
    name in open(f'/proc/{pid}/cmdline').read()
    for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()))

# ipc
def segment():
    found = libc.shmget(told['key'], 4096, 0)
    address = libc.shmat(found, None, 0o10000) if found >= 0 else None
    return address not in (None, 2 ** 64 - 1) and holds(ctypes.string_at(address, 64))
attempt('ipc', 'shared memory', segment)
attempt('ipc', 'semaphores', lambda: libc.semget(told['key'], 1, 0) >= 0)
attempt('ipc', 'message queue', lambda: libc.msgget(told['key'], 0) >= 0)
attempt('ipc', 'posix shared memory', lambda: reads(f'/dev/shm/{name}'))
attempt('ipc', 'posix message queue', lambda: libc.mq_open(f'/{name}'.encode(), os.O_RDONLY) >= 0)

# temporary files
attempt('temporary-files', '/tmp', lambda: reads(f'/tmp/{name}'))
attempt('temporary-files', '/var/tmp', lambda: reads(f'/var/tmp/{name}'))

# privileges
def raised(text):
    return any(line.split()[1:2] == [b'0'] or line.startswith(b'CapEff:') and int(line.split()[1], 16)
               for line in text.splitlines() if line.startswith((b'Uid:', b'CapEff:')))
attempt('privileges', 'set-user-id program', lambda: b'uid=0(' in subprocess.run(
    [told['setuid']], capture_output=True, timeout=10).stdout)
attempt('privileges', 'own privileges', lambda: raised(open('/proc/self/status', 'rb').read()))
attempt('privileges', 'setuid(0)', lambda: os.setuid(0) is None)
attempt('privileges', 'write to the shared folder', lambda: writes(told['shared'] + '/planted'))

# devices
attempt('devices', 'device file', lambda: stat.S_ISCHR(os.stat(told['device']).st_mode))
attempt('devices', 'device made by itself', lambda: os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 3))
        or opens('device', os.O_RDWR))

# network
def connects(family, address):
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)
        return True
attempt('network', 'port on loopback', lambda: connects(socket.AF_INET, ('127.0.0.1', told['port'])))
attempt('network', 'abstract socket', lambda: connects(socket.AF_UNIX, '\0' + name))

# tricks for whoever clears up and reads afterwards
import shutil
shutil.rmtree('artifacts', ignore_errors=True)
os.symlink(told['sealed'][0], 'artifacts')
os.rename('tmp', 'moved')
os.symlink(work, 'tmp')
print('achieved ' + json.dumps([tried, achieved]), flush=True)
"""

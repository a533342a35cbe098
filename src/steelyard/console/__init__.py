"""The console: web pages for people, rendered on the server, that work without script.

How a page is made
------------------
1. A noun has a module here (`workloads.py`). A page is a function of a `Visit`, which holds who asks, the
   language, the theme, the query and the form, and the services. It calls the same services as the API with
   `visit.principal` (they authorise and filter) and answers with `visit.show("noun.html", …)`, after a form
   with `visit.go("/path")`, or raises one of our errors, which becomes a page with its sentence.
2. The module ends with `PAGES = [Page("GET", "/nouns", function), …]` and stands in `app.MODULES`; its entry
   of the menu stands in `menu.MENU`. A form is `Page("POST", …)`: `serve` has checked the session, the origin
   and the form's token before the function is called. Every route has a row in the table of
   tests/service/console/test_walk.py, every page that is looked at one in tests/e2e/pages.py.
3. A template begins with `{% extends "layout.html" %}` and `{% import "macros.html" as ui with context %}`
   and fills the blocks `title` and `main`. Its sentences are `{{ say("noun.key", name=value) }}`, kept in
   locale/texts/page_noun.json in zh and en; words of closed lists are `{{ word("phase", value) }}`; amounts,
   spans and instants are `amount(class, n)`, `span(µs)` and `when(µs)`. Names, ids and what a user wrote
   stand in `ui.name(…)`, so that neither a translator nor the test of untranslated texts minds them.
4. Pictures are SVG made by `reports.drawing`, with classes and no style attribute: the policy of the pages
   (`answers.POLICY`) allows no inline style or script. Colours are the tokens at the top of
   static/steelyard.css.
5. What may change while it is looked at stands in an element with an `id` and `data-live="workload"` (the
   kinds of changes that concern it; `*` is any): the one script fetches the page anew after such a change and
   puts in that element. Without script the page is loaded again by hand and says the same.

Status is a word, a shape and a colour (`ui.status`); what is simulated is marked (`ui.simulated`); what is
not known is said to be unknown (`ui.unknown`), never 0.
"""

"""Shared by all commands: the API client, and the output of answers and faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from rich.console import Console, RenderableType
from rich.text import Text
from tagcast_client import Client, ProblemError, SigningError, TagcastError, UnexpectedAnswerError, UnreachableError
from tagcast_client.instants import json_default
from tagcast_client.operation import Answer, Json
from typer.core import TyperGroup

from tagcast_cli import completion
from tagcast_cli.api_client import explain_missing, explain_refusal, explain_unexpected, explain_unreachable, pages
from tagcast_cli.cmq_key_store import KeyStoreError
from tagcast_cli.job_run import JobError
from tagcast_cli.screen import Column, console, fault_lines, items_table
from tagcast_cli.visible import visible, visible_json

TopicName = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=completion.topics)]
SubscriptionName = Annotated[
    str, typer.Argument(help="Name of the subscription.", autocompletion=completion.subscriptions)
]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum rows of one page.")]
Cursor = Annotated[str | None, typer.Option(help="Start at this cursor, printed under the previous page.")]
EveryPage = Annotated[bool, typer.Option("--all", help="Show all pages of the list.")]


def _read_version(text: str) -> str:
    """Return the value of If-Match. A version number, as the commands show it, becomes an ETag.

    >>> _read_version("3"), _read_version('"3"')
    ('"3"', '"3"')
    """
    if not text.strip() or not (text.isascii() and text.isprintable()):
        raise typer.BadParameter(f"{text!r} is not a version, e.g. 3")
    return f'"{text}"' if text.isdigit() else text


def if_match(help: str) -> Any:
    """Return the option ``--if-match``: the version that the resource must have. *help* is the option's help text."""
    return typer.Option("--if-match", parser=_read_version, metavar="VERSION", help=help)


Renderer = Callable[[Json], RenderableType]


CHECKED_BY_PYDANTIC = "Value error, "
"""The prefix that Typer adds to a message about an invalid choice."""
SHOWN_CHOICES_MAX = 18
"""The maximum characters of a list of choices. A longer list moves to the help text, to keep its column narrow."""
_NAMES = {bool: "", int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True)
class Session:
    """One run of the command line: its API client and its global options."""

    api: Client
    as_json: bool
    profile: str | None = None
    region: str | None = None

    @property
    def out(self) -> Console:
        """The console of standard output."""
        return console()

    def show(self, answer: Answer, render: Renderer | str) -> None:
        """Print an answer: unchanged with --json, otherwise as *render* formats it.

        If *render* is a text, print the text instead of the answer.
        """
        shown = self.read_answer(answer)
        if not self.as_json:
            self.out.print(Text(render) if isinstance(render, str) else render(shown), crop=False)

    def read_answer(self, answer: Answer) -> Json:
        """Return the JSON object of an answer. With --json, also print it on a line.

        Raises UnexpectedAnswerError if the answer is not a JSON object, for example if it is a web page.
        """
        shown = answer.json
        if self.as_json and answer.text.strip():
            typer.echo(visible_json(answer.text.rstrip("\n")))
        return shown

    def send(
        self, method: str, path: str, render: Renderer | str, body: Json | None = None, if_match: str | None = None
    ) -> None:
        """Send a request, and print its answer as `show` does.

        *if_match* is the version that the resource must have; None allows any.
        """
        headers = {"if-match": if_match} if if_match else None
        self.show(self.api.request(method, path, body, headers=headers), render)

    def print_lines(self, lines: Iterable[Text]) -> None:
        """Print each line unbroken, so that you can copy its commands. A part of a command may be another command."""
        for line in lines:
            self.out.print(line, soft_wrap=True)

    def print_line(self, line: Text, fields: Json) -> None:
        """Print a line unbroken, or its *fields* with --json."""
        if self.as_json:
            self.print_json(fields)
        else:
            self.out.print(line, soft_wrap=True)

    def print_json(self, value: Json) -> None:
        """Print one object as a line of JSON, with instants in the API's form."""
        typer.echo(visible_json(json.dumps(value, ensure_ascii=False, default=json_default)))

    def warn(self, sentence: str) -> None:
        """Print a warning on standard error, and continue."""
        console(to_errors=True).print(Text(visible(sentence), style="yellow"))

    def put(
        self, path: str, body: Json, exists: str, change: str, *, replace: bool = False, if_match: str | None = None
    ) -> Answer:
        """Create a resource. With *replace* or *if_match* (its version), replace an existing resource.

        *exists* and *change* are for the error if the resource exists: a sentence that says so, and the command that
        updates the resource.
        """
        if if_match is not None:
            return self.api.request("PUT", path, body, headers={"if-match": if_match})
        try:
            return self.api.request("PUT", path, body, headers=None if replace else {"if-none-match": "*"})
        except ProblemError as refused:
            if not replace and refused.status == HTTPStatus.PRECONDITION_FAILED:
                how = f"Update single settings with {change} …, or replace it as a whole with --replace"
                refused.add_note(f"{exists}. {how}")
            raise

    def show_list(self, path: str, listing: Listing, page: Page) -> list[Json]:
        """Print one page of a list, or all pages, and return the items. Empty pages are skipped.

        With --json, print one line per page and return an empty list.
        """
        answers = self.read(path, page)
        if self.as_json:
            return []
        while not answers[-1].get(listing.key) and (cursor := answers[-1].get("next_cursor")):
            answers += self.read(path, replace(page, cursor=cursor))
        items = [item for answer in answers for item in answer.get(listing.key, [])]
        if not items:
            self.out.print(listing.empty)
            return []
        self.out.print(items_table(items, listing.columns))
        self.print_next_options(answers[-1], "--all")
        return items

    def read(self, path: str, page: Page, query: Mapping[str, Any] | None = None) -> list[Json]:
        """Return the answers with one page or all pages of a list. With --json, also print each answer on a line.

        *query* has further query parameters.
        """
        answers: list[Json] = []
        for answer in pages(self.api, path, page.limit, page.cursor, query):
            answers.append(self.read_answer(answer))
            if not page.every:
                break
        return answers

    def print_next_options(self, answer: Json, *other_options: str) -> None:
        """Print the options for the next page, `--cursor` or *other_options*. On the last page, print nothing.

        They are on one line, so that you can copy them.
        """
        if cursor := answer.get("next_cursor"):
            options = ", or ".join((f"--cursor {cursor}", *other_options))
            self.out.print(Text(f"There is more: {options}", style="dim"), soft_wrap=True)


@dataclass(frozen=True)
class Page:
    """The options of a list: its limit, its cursor, and whether to read *every* page."""

    limit: Limit = 50
    cursor: Cursor = None
    every: EveryPage = False


@dataclass(frozen=True)
class ShortPage(Page):
    """The options of a list with few rows on a page."""

    limit: Limit = 20


@dataclass(frozen=True)
class Listing:
    """The format of a list.

    *key* names the items in an answer, *columns* maps headings to columns, and *empty* is the text of an empty list.
    """

    key: str
    columns: Mapping[str, Column]
    empty: str


def session_of(ctx: typer.Context) -> Session:
    """Return the session with the global options."""
    session = ctx.find_object(Session)
    if session is None:
        raise RuntimeError("a command ran without the global options")
    return session


def source_of(ctx: Any, name: str) -> str:
    """Return where the value of the option *name* is from: ``COMMANDLINE``, ``ENVIRONMENT`` or ``DEFAULT``."""
    source = ctx.get_parameter_source(name)
    return "DEFAULT" if source is None else str(source.name)


class Commands(TyperGroup):
    """The root group of commands. It accepts --json anywhere. Errors become text and exit code 1."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        make_readable(self)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--json` to the front, because users may write it after the command."""
        end = args.index("--") if "--" in args else len(args)
        options, rest = args[:end], args[end:]
        if "--json" in options:
            options = ["--json", *(word for word in options if word != "--json")]
        return super().parse_args(ctx, options + rest)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that *args* begin with. For the unknown `create topic`, the error names `topic create`."""
        word = args[0]
        groups = [name for name, group in self.commands.items() if word in getattr(group, "commands", ())]
        if word not in self.commands and groups:
            named = [name for name in groups if name in args[1:2]] or groups
            proposed = " or ".join(f"'{name} {word}'" for name in named)
            ctx.fail(f"No such command '{word}'. Did you mean {proposed}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A fault of the API, the network or the credentials ends it with exit code 1."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            wrong.message = wrong.message.removeprefix(CHECKED_BY_PYDANTIC)
            raise
        except ProblemError as refused:
            _print_refusal(ctx, refused)
        except BrokenPipeError:
            raise
        except (TagcastError, OSError, ModuleNotFoundError, JobError, KeyStoreError) as fault:
            lines = _sentences(ctx, fault)
            if lines is None:
                raise
            _print_fault(ctx, lines)
        raise typer.Exit(1)


def _print_fault(ctx: Any, lines: list[str]) -> None:
    """Print an error and its remedy; with --json as an object with a title and a detail."""
    if ctx.params.get("as_json"):
        problem = {"title": lines[0], "detail": "\n".join(lines[1:])}
        typer.echo(visible_json(json.dumps(problem, ensure_ascii=False)), err=True)
        return
    errors = console(to_errors=True)
    errors.print(Text.assemble(("error: ", "bold red"), lines[0]))
    for line in lines[1:]:
        errors.print(f"  {line}")


def _print_refusal(ctx: Any, refused: ProblemError) -> None:
    """Print a refusal, or the note that a command added to it. With --json, print it as the API wrote it."""
    errors = console(to_errors=True)
    if ctx.params.get("as_json"):
        try:
            json.loads(refused.text)
            text = refused.text.rstrip("\n")
        except ValueError:  # Another server wrote no JSON.
            text = json.dumps(refused.problem)
        typer.echo(visible_json(text), err=True)
    elif notes := getattr(refused, "__notes__", ()):
        errors.print(Text.assemble(("error: ", "bold red"), *notes))
    else:
        errors.print(fault_lines(refused.problem, refused.status))
        if (hint := explain_refusal(refused)) is not None:
            errors.print(f"  {hint}")


def _sentences(ctx: Any, fault: Exception) -> list[str] | None:
    """Return an error and its remedy as text; None for an unexpected error, which needs a traceback."""
    match fault:
        case UnreachableError():
            return [f"no response from {fault.url}", explain_unreachable(fault)]
        case UnexpectedAnswerError():
            return [explain_unexpected(ctx.params["url"], fault)]
        case ModuleNotFoundError():
            remedy = explain_missing(fault)
            return None if remedy is None else [remedy]
        case OSError():
            return [f"{fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}"]
        case SigningError() | JobError() | KeyStoreError():
            return [str(fault)]
        case _:
            return None


def unwrap(text: str) -> str:
    r"""Return paragraphs as one line each.

    >>> unwrap("One\ntwo.\n\nThree.\n")
    'One two.\n\nThree.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def make_readable(command: Any) -> None:
    """Unwrap the help texts of a command and its subcommands, and name the kinds of option values, e.g. NUMBER."""
    if command.help:
        command.help = unwrap(command.help)
    for option in command.params:
        if option.param_type_name == "option" and option.metavar is None:
            _name_value(option)
    for inner in getattr(command, "commands", {}).values():
        make_readable(inner)


def _name_value(option: Any) -> None:
    annotation = option.type_descriptor.annotation
    kind = (get_args(annotation) or (annotation,))[0]
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        option.metavar = "|".join(choices)
        if len(option.metavar) > SHOWN_CHOICES_MAX:
            option.metavar = "NAME"
            option.help = f"{option.help or ''} One of {', '.join(choices)}.".strip()
    else:
        option.metavar = _NAMES.get(kind, "TEXT")

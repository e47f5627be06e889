"""A scripted service, what asks it, and what that spends: for tests of agents."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from layers.agent_settings import AnthropicSection, BudgetSection, ModelSection, Prices
from layers.agents.service.budget import Purse
from layers.agents.service.messages import MessagesClient
from tests.messages_server import Asked, Fault, MessagesServer, Say, Script

KEY = "sk-scripted-0123456789abcdefghij"
PRICES = Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)
MODEL = ModelSection(name="scripted", max_tokens=1000, prices=PRICES)
LEDGER = "spent.jsonl"


@dataclass(frozen=True)
class Service:
    server: MessagesServer
    purse: Purse
    client: MessagesClient
    slept: list[float]  # between tries, without waiting


def saying(*answers: Say | Fault) -> Script:
    """Return a script: these answers, one after the other; more is an error."""
    left = list(answers)

    def script(asked: Asked) -> Say | Fault:
        assert left, f"asked once more than expected: {asked.last_text[:200]}"
        return left.pop(0)

    return script


def always(answer: Say | Fault) -> Script:
    """Return a script that knows one answer."""
    return lambda asked: answer


@contextmanager
def service(
    folder: Path,
    script: Callable[[Asked], Say | Fault],
    *,
    stream: bool = True,
    tries: int = 3,
    timeout_s: float = 30.0,
    limits: BudgetSection | None = None,
    model: ModelSection = MODEL,
) -> Iterator[Service]:
    """Serve while the block runs; what is spent stands in `folder`, from earlier blocks too."""
    with MessagesServer(script) as server:
        section = AnthropicSection(
            model=model, base_url=server.url, stream=stream, tries=tries, timeout_s=timeout_s
        )
        purse = Purse(folder / LEDGER, limits or BudgetSection())
        slept: list[float] = []
        client = MessagesClient(section, KEY, purse, sleep=slept.append)
        yield Service(server, purse, client, slept)

"""What one class of Pulsar's is here: a runner with a form for its ticks and one answer each.

Ticks are checked against the form before they run; a tick's `conf` changes the settings from then
on, as a dynamic update does in a broker.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from controller.decide.conf import settings_of
from controller.decide.scenario import Scenario, error_of, expand

Answer = dict[str, Any]
F = TypeVar("F", bound=msgspec.Struct)


class Runner(Generic[F]):
    """One instance serves all ticks of a scenario, in order."""

    form: ClassVar[type[Any]]

    def __init__(self, scenario: Scenario, parity: bool) -> None:
        self.scenario = scenario
        self.parity = parity
        self.conf: dict[str, Any] = dict(scenario.conf)
        self.settings = settings_of(self.conf, parity=parity)
        self.start()

    def start(self) -> None:
        """Prepares what is carried from tick to tick."""

    def tick(self, tick: F) -> Answer:
        """The answer to one tick."""
        raise NotImplementedError

    def run(self) -> list[Answer]:
        """The answers to all ticks; raises `ScenarioError`."""
        answers: list[Answer] = []
        for number, (given, repeat) in enumerate(expand(self.scenario)):
            try:
                tick = msgspec.convert(given, self.form)
            except msgspec.ValidationError as error:
                raise error_of(error, f"ticks[{number}]") from None
            if tick.conf is not None:
                self.conf.update(tick.conf)
                self.settings = settings_of(self.conf, parity=self.parity)
            answers += [self.tick(tick) for _ in range(repeat)]
        return answers

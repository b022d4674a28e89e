"""How many moves a tick may still begin: per tick, in flight in total, and per broker."""

from __future__ import annotations

from controller.core.view.build import is_in_flight
from controller.core.work import Work


class Budget:
    """Shared by all that moves bundles at one tick: evacuation first, then the round."""

    def __init__(self, work: Work) -> None:
        self.actions = work.settings.actions
        self.begun = 0
        self.in_flight = 0
        self.per_broker: dict[str, int] = {}
        for move in work.state.memory.moves.values():
            if is_in_flight(move) and move.kind in ("transfer", "unload", "split"):
                self._book((move.source, move.destination))

    def has_room(self, broker: str) -> bool:
        """True if one more move from or to the broker could begin."""
        return (
            self.begun < self.actions.moves_per_round_max
            and self.in_flight < self.actions.in_flight_max
            and self.per_broker.get(broker, 0) < self.actions.in_flight_per_broker_max
        )

    def takes(self, brokers: tuple[str, ...]) -> bool:
        """Books one more move if every limit allows it."""
        if not all(map(self.has_room, brokers)):
            return False
        self.begun += 1
        self._book(brokers)
        return True

    def _book(self, brokers: tuple[str | None, ...]) -> None:
        self.in_flight += 1
        for broker in brokers:
            if broker is not None:
                self.per_broker[broker] = self.per_broker.get(broker, 0) + 1

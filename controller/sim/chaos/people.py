"""Clients that look bundles up, and an operator who steers: both only append commands."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.bundles import split_name
from controller.sim.chaos.world import CLUSTER, COMMANDS, World
from controller.transport.port import OutRecord
from controller.wire.commands import (
    Assign,
    Command,
    Drain,
    Pause,
    Pin,
    Resume,
    SplitBundle,
    Transfer,
    Undrain,
    Unload,
    Unpin,
    encode_command,
)

LOOKUP_MS = 700  # between two looks of the clients
ORDER_MS = (200, 2_500)  # between two orders of the operator


@dataclass(slots=True)
class People:
    """Acts until `stop`; the clients go on for ever."""

    world: World
    is_over: bool = False

    def start(self) -> None:
        """Clients ask at once, the operator after a while."""
        self._look_up()
        self._order_soon()

    def stop(self) -> None:
        """The operator ends what would stand in the way of a quiet end."""
        self.is_over = True
        self._send(Resume(who="operator"))
        for agent in self.world.agents:
            self._send(Undrain(broker=agent.name, who="operator"))
        for bundle in self.world.judge.table:
            self._send(Unpin(bundle=bundle, who="operator"))

    def _look_up(self) -> None:
        """Clients of unowned bundles ask for an owner, sometimes several of them at once."""
        table, chance = self.world.judge.table, self.world.kernel.random
        for bundle in self.world.bundles():
            if bundle not in table or table[bundle].state == "Free":
                for _ in range(chance.choice((1, 1, 2))):
                    asker = chance.choice(self.world.agents).name
                    self._send(Assign(bundle=bundle, requestedBy=asker))
        self.world.kernel.later(LOOKUP_MS, self._look_up)

    def _order_soon(self) -> None:
        self.world.kernel.later(self.world.kernel.random.randint(*ORDER_MS), self._order)

    def _order(self) -> None:
        if self.is_over:
            return
        chance = self.world.kernel.random
        if chance.random() < 0.3:
            self.world.hot = chance.random()
        else:
            self._send(self._some_command())
        self._order_soon()

    def _some_command(self) -> Command:
        chance = self.world.kernel.random
        bundle = chance.choice(self.world.bundles())
        broker = chance.choice(self.world.agents).name
        kind = chance.randrange(12)
        if kind < 4:
            return Transfer(bundle=bundle, destination=broker, who="operator")
        if kind < 6:
            return Unload(bundle=bundle, who="operator")
        if kind < 8:
            return self._split(bundle)
        return (
            Drain(broker=broker, who="operator"),
            Undrain(broker=broker, who="operator"),
            Pin(bundle=bundle, broker=chance.choice((broker, None)), who="operator"),
            chance.choice((Unpin(bundle=bundle), Pause(untilMs=self._soon_ms()), Resume())),
        )[kind - 8]

    def _soon_ms(self) -> int:
        return self.world.log.now_ms() + 2_000

    def _split(self, bundle: str) -> Command:
        """In the middle, or at two or three boundaries."""
        chance = self.world.kernel.random
        _, lower, upper = split_name(bundle)
        parts = chance.choice((2, 2, 3, 4))
        edges = [lower + (upper - lower) * n // parts for n in range(1, parts)]
        return SplitBundle(bundle=bundle, boundaries=edges if parts > 2 else None, who="operator")

    def _send(self, command: Command) -> None:
        self.world.kernel.tell("people", str(command))
        value = encode_command(command)
        self.world.log.append([OutRecord(COMMANDS, f"{CLUSTER}/people", value)])

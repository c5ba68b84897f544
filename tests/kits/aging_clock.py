"""A clock of tests of retention."""

import attrs

from shardline.actors.clock import FakeClock


@attrs.define
class AgingClock(FakeClock):
    """One on which time can pass without anybody waiting for it."""

    passed_s: float = attrs.field(default=0.0, init=False)

    def mono_s(self) -> float:
        return super().mono_s() + self.passed_s

    def pass_by(self, us: int) -> None:
        self.jump_wall(us)
        self.passed_s += us / 1_000_000

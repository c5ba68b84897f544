import time

import trio
import trio.testing

from shardline.actors.clock import Clock, FakeClock, SystemClock


async def test_system_clock_reads_the_machine_and_trio() -> None:
    clock: Clock = SystemClock()

    before_us, wall_us, after_us = time.time_ns() // 1000, clock.wall_us(), time.time_ns() // 1000

    assert before_us <= wall_us <= after_us
    assert clock.mono_s() <= trio.current_time()


async def test_fake_wall_follows_trio(autojump_clock: trio.testing.MockClock) -> None:
    await trio.sleep(100)
    clock = FakeClock(start_us=5_000_000)

    assert clock.wall_us() == 5_000_000
    await trio.sleep(2.5)
    assert clock.wall_us() == 7_500_000
    assert clock.mono_s() == trio.current_time()


async def test_wall_jumps_leave_monotonic_time_alone(autojump_clock: trio.testing.MockClock) -> None:
    clock = FakeClock(start_us=0)
    mono_s = clock.mono_s()

    clock.jump_wall(3_600_000_000)
    assert clock.wall_us() == 3_600_000_000
    clock.jump_wall(-7_200_000_000)

    assert clock.wall_us() == -3_600_000_000
    assert clock.mono_s() == mono_s


def test_fake_clock_made_outside_trio_starts_at_its_first_reading() -> None:
    clock = FakeClock(start_us=42)

    async def read() -> tuple[int, int]:
        await trio.sleep(10)
        first_us = clock.wall_us()
        await trio.sleep(1)
        return first_us, clock.wall_us()

    assert trio.run(read, clock=trio.testing.MockClock(autojump_threshold=0)) == (42, 1_000_042)

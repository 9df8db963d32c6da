"""The example of the best players."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e09_leaderboard")


def feed(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("scores").pipe_table(
        """
        key | game  | player | points
        ann | chess | ann    | 7
        bob | chess | bob    | 8
        ann | chess | ann    | 9
        eve | chess | eve    | 1
        dan | chess | dan    | 2
        ann | go    | ann    | 3
        ann | chess | ann    | 5
        """
    )


def test_three_players_lead_each_with_their_best() -> None:
    """Whoever does better moves up; who does worse stays where they were."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        leaders = driver.create_output_topic("leaders").read_key_values_to_map()
        champion = driver.create_output_topic("champions").read_key_values_to_map()
    by_game = {game: [(one.player, one.points) for one in best] for game, best in leaders.items()}
    assert by_game == {"chess": [("ann", 9), ("bob", 8), ("dan", 2)], "go": [("ann", 3)]}
    assert champion["all"].best == program.Score("chess", "ann", 9)


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(program.app, feed)

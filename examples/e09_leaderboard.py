"""Show the three best players of each game, and the best of all, as scores come in.

    mustela broker start
    mustela topics create e09_leaderboard:app
    mustela run e09_leaderboard:app

and in a second terminal:

    mustela send scores ann '{"game": "chess", "player": "ann", "points": 7}'
    mustela send scores ann '{"game": "chess", "player": "ann", "points": 9}'
    mustela tail leaders --from-beginning
    mustela tail champions --from-beginning

A table has each player's best score of a game; a player who does better moves up, and is not in
the list twice: the table retracts the old row. ``group_all`` ranks all scores under one key; it
is combined where records are read, so the one lane that has it gets a row for each task and
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, StreamsBuilder
from mustela.aggregates import MaxBy

BEST = 3

app = App("leaderboard")


@dataclass(frozen=True)
class Score:
    game: str
    player: str
    points: int


def place(_player: str, score: Score) -> str:
    return f"{score.game}/{score.player}"


def better(known: Score, score: Score) -> Score:
    return max(known, score, key=lambda one: one.points)


def game_of(_place: str, score: Score) -> tuple[str, Score]:
    return score.game, score


@app.topology
def build(builder: StreamsBuilder) -> None:
    scores = builder.stream("scores", key=str, value=Score)
    personal = scores.group_by(place, key=str, name="places").reduce(better, store="personal-bests")
    games = personal.group_by(game_of, key=str, value=Score, name="games")
    leaders = games.top_n(BEST, by="points", store="leaders").to_stream(name="leading")
    leaders.to("leaders", value=list[Score])
    champion = scores.group_all().aggregate(best=MaxBy("points"), store="champion")
    champion.to_stream(name="best").to("champions")


if __name__ == "__main__":
    app.run()

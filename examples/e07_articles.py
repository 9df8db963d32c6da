"""Keep a list of articles with the name of their maker up to date: a join by foreign key.

    mustela broker start
    mustela topics create e07_articles:app
    mustela run e07_articles:app

and in a second terminal:

    mustela send articles a-1 '{"title": "boat", "maker": "m-1"}'
    mustela send makers m-1 Ann
    mustela send makers m-1 "Ann and sons"
    mustela tail listed --from-beginning

An article refers to its maker. When the maker changes, all of its articles change, in whichever
lanes they are; when an article is deleted (a null value) or moves to another maker, its row
follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, StreamsBuilder

app = App("articles")


@dataclass(frozen=True)
class Article:
    title: str
    maker: str


def listed(article: Article, maker: str | None) -> str:
    return f"{article.title} by {maker or 'somebody'}"


def maker_of(article: Article) -> str:
    return article.maker


@app.topology
def build(builder: StreamsBuilder) -> None:
    articles = builder.table("articles", key=str, value=Article, store="articles")
    makers = builder.table("makers", key=str, value=str, store="makers")
    rows = articles.left_join(makers, listed, foreign_key=maker_of, store="listed", name="listed")
    rows.to_stream().to("listed", value=str)


if __name__ == "__main__":
    app.run()

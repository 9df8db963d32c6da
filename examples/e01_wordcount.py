"""Count words: lines come from one topic, the counts go to another.

    mustela broker start
    mustela topics create e01_wordcount:app
    mustela run e01_wordcount:app

and in a second terminal:

    mustela send lines "to be or not to be"
    mustela tail counts --value int --from-beginning
"""

from mustela import App, StreamsBuilder

app = App("wordcount")


@app.topology
def build(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word)
    words.count(store="counts").to_stream().to("counts", key=str, value=int)


if __name__ == "__main__":
    app.run()

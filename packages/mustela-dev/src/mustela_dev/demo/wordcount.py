"""Count the words of a topic of lines, and copy the lines to another topic."""

from mustela import App, StreamsBuilder

app = App("wordcount")


@app.topology
def build(builder: StreamsBuilder) -> None:
    """Build the topology."""
    lines = builder.stream("lines", key=str, value=str)
    lines.to("lines-copy", name="copy")
    words = lines.flat_map_values(str.split, name="words").group_by(lambda _key, word: word)
    words.count(store="counts").to_stream().to("counts", key=str, value=int)


if __name__ == "__main__":
    app.run()

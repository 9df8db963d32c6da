package benchmarks;

/** A row of the table that the benchmark of queries asks. */
public final class Order {
    public String city;
    public long total;
    public String note;
}

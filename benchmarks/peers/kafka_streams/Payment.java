package benchmarks;

/** The 1 KB JSON record of the stateless workloads, as it arrives. */
public final class Payment {
    public long id;
    public long ts;
    public double amount;
    public String currency;
    public String account;
    public String merchant;
    public String country;
    public String channel;
    public String status;
    public String category;
    public String device;
    public String pad;
}

package benchmarks;

import com.fasterxml.jackson.annotation.JsonInclude;

/** A payment with its amount in euro and two fields renamed: what the stateless workloads write. */
@JsonInclude(JsonInclude.Include.NON_NULL)
public final class ConvertedPayment {
    public long id;
    public long ts;
    public double amount;
    public String currency;
    public String account_id;
    public String merchant_id;
    public String country;
    public String channel;
    public String status;
    public String category;
    public String device;
    public String pad;
    public double amount_eur;
    /** Only in the advanced workload: 0 for the debit, 1 for the credit. */
    public Integer leg;

    /** Convert and rename; three decimals, as every peer rounds. */
    static ConvertedPayment of(Payment payment) {
        ConvertedPayment out = new ConvertedPayment();
        out.id = payment.id;
        out.ts = payment.ts;
        out.amount = payment.amount;
        out.currency = payment.currency;
        out.account_id = payment.account;
        out.merchant_id = payment.merchant;
        out.country = payment.country;
        out.channel = payment.channel;
        out.status = payment.status;
        out.category = payment.category;
        out.device = payment.device;
        out.pad = payment.pad;
        out.amount_eur = Math.round(payment.amount * 0.908 * 1000.0) / 1000.0;
        return out;
    }

    /** The same payment as one leg of a transfer; the pad stays shared. */
    ConvertedPayment withLeg(int which) {
        ConvertedPayment out = new ConvertedPayment();
        out.id = id;
        out.ts = ts;
        out.amount = amount;
        out.currency = currency;
        out.account_id = account_id;
        out.merchant_id = merchant_id;
        out.country = country;
        out.channel = channel;
        out.status = status;
        out.category = category;
        out.device = device;
        out.pad = pad;
        out.amount_eur = amount_eur;
        out.leg = which;
        return out;
    }
}

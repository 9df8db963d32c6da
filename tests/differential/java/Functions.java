package differential;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/** The functions that topologies name. tests/differential/functions.py says the same in Python. */
final class Functions {
    private Functions() {
    }

    /** What functions see of a key: a windowed one is its text. */
    static String text(Object key) {
        if (key instanceof Windowed<?> windowed) {
            return "[" + windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end() + "]";
        }
        return (String) key;
    }

    static boolean test(String name, Object key, Object value) {
        String v = (String) value;
        return switch (name) {
            case "even" -> v == null || v.length() % 2 == 0;
            case "key_a" -> key != null && text(key).contains("a");
            case "has_1" -> v != null && v.contains("1");
            default -> throw new IllegalArgumentException("no predicate " + name);
        };
    }

    static String mapValue(String name, Object key, Object value) {
        String v = (String) value;
        return switch (name) {
            case "tag" -> v == null ? null : v + "'";
            case "fill" -> v == null ? "nil" : v;
            case "drop_2" -> v != null && v.contains("2") ? null : v;
            case "with_key" -> text(key) + "=" + v;
            case "length" -> v == null ? null : String.valueOf(v.length());
            default -> throw new IllegalArgumentException("no value mapper " + name);
        };
    }

    static String mapKey(String name, Object key, Object value) {
        String v = (String) value;
        return switch (name) {
            case "same" -> text(key);
            case "by_value" -> v == null || v.isEmpty() ? null : v.substring(0, 1);
            case "upper" -> key == null ? null : text(key).toUpperCase();
            case "one" -> "x";
            case "initial" -> key == null ? null : text(key).replace("[", "").substring(0, 1);
            default -> throw new IllegalArgumentException("no key mapper " + name);
        };
    }

    static KeyValue<Object, Object> mapPair(String name, Object key, Object value) {
        return switch (name) {
            case "swap" -> KeyValue.pair(mapKey("by_value", key, value), text(key));
            case "upper_tag" -> KeyValue.pair(mapKey("upper", key, value), mapValue("tag", key, value));
            case "same_value" -> KeyValue.pair(text(key), value);
            case "by_value" -> KeyValue.pair(mapKey("by_value", key, value), value);
            case "one" -> KeyValue.pair("x", value);
            default -> throw new IllegalArgumentException("no pair mapper " + name);
        };
    }

    static List<Object> flatValues(String name, Object value) {
        String v = (String) value;
        List<Object> found = new ArrayList<>();
        switch (name) {
            case "twice" -> {
                found.add(v);
                found.add(v == null ? null : v + "2");
            }
            case "letters" -> {
                for (int i = 0; v != null && i < Math.min(v.length(), 4); i++) {
                    found.add(v.substring(i, i + 1));
                }
            }
            default -> throw new IllegalArgumentException("no flat mapper " + name);
        }
        return found;
    }

    static List<KeyValue<Object, Object>> flatPairs(String name, Object key, Object value) {
        List<KeyValue<Object, Object>> found = new ArrayList<>();
        for (Object one : flatValues(name, value)) {
            found.add(KeyValue.pair(key, one));
            found.add(KeyValue.pair(mapKey("by_value", key, one), one));
        }
        return found;
    }

    static Object add(String name, Object key, Object value, Object total) {
        String v = (String) value;
        return switch (name) {
            case "concat" -> total + "," + v;
            case "drop_3" -> v != null && v.contains("3") ? null : total + "," + v;
            case "last" -> v;
            default -> throw new IllegalArgumentException("no aggregator " + name);
        };
    }

    static Object subtract(String name, Object key, Object value, Object total) {
        return "concat".equals(name) || "drop_3".equals(name) ? total + "-" + value : total;
    }

    static Object reduce(String name, Object total, Object value) {
        return add(name, null, value, total);
    }

    static Object merge(Object left, Object right) {
        return left + "|" + right;
    }

    static Object join(Object left, Object right) {
        return left + "+" + right;
    }

    static String foreignKey(String name, Object value) {
        String v = (String) value;
        return switch (name) {
            case "initial" -> v.isEmpty() || Character.isDigit(v.charAt(0)) ? null : v.substring(0, 1);
            case "always" -> v.isEmpty() ? "a" : v.substring(0, 1);
            default -> throw new IllegalArgumentException("no foreign key " + name);
        };
    }
}

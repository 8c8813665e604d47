package tickwheel;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Calls that are rows of an outbox: they take effect if the caller's transaction commits. Each returns the number of its
 * row, which is {@code id} in {@code tickwheel.rejected} if the service refuses it later. {@link Client#inTransaction} makes
 * one.
 */
public final class Transaction {
    /*
     * All parameters are texts; the server converts them. A delay is milliseconds, because a `day` of PostgreSQL has 23
     * hours when clocks go forward.
     */
    private static final Map<String, String> CASTS = Map.of("target", "CAST(? AS text)", "key", "CAST(? AS text)", "event",
            "CAST(? AS text)", "fields", "CAST(CAST(? AS text) AS json)", "after",
            "CAST(CAST(? AS text) AS bigint) * interval '1 millisecond'", "at", "CAST(CAST(? AS text) AS timestamptz)");
    /** Each unit once, the larger before the smaller. */
    private static final Pattern PARTS = Pattern
            .compile("(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?");
    private static final long[] UNITS = {604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1};

    private final Connection connection;

    Transaction(Connection connection) {
        this.connection = connection;
    }

    /** Makes a timer. If a live timer that differs has the key, the row is rejected. */
    public long create(Create create) throws SQLException {
        return schedule("schedule", null, create);
    }

    /** Makes the timer with this key, or replaces it whole. */
    public long put(String key, Create create) throws SQLException {
        return schedule("put", key, create);
    }

    /** Puts the timer with this key off; never makes it earlier. */
    public long touch(String key, Duration after) throws SQLException {
        Map<String, String> values = new LinkedHashMap<>(Map.of("key", key));
        values.put("after", delay(Json.milliseconds(after)));
        return run("touch", values);
    }

    public long touch(String key, Instant at) throws SQLException {
        Map<String, String> values = new LinkedHashMap<>(Map.of("key", key));
        values.put("at", instant(at));
        return run("touch", values);
    }

    /** Without effect if the timer is over; rejected if its delivery has begun by the time the row is read. */
    public long cancel(String key) throws SQLException {
        return run("cancel", Map.of("key", key));
    }

    /** Cancels the timers that watch the event. */
    public long complete(String event) throws SQLException {
        return run("complete", Map.of("event", event));
    }

    /** The time, the key and a single target are parameters; all other fields are one JSON. */
    private long schedule(String function, String key, Create create) throws SQLException {
        Map<String, Object> fields = new LinkedHashMap<>(create.fields);
        Object target = fields.remove("target"), own = fields.remove("key");
        Object after = fields.remove("after"), at = fields.remove("at");
        if (key != null && own != null)
            throw new IllegalArgumentException("the key is given twice");
        Map<String, String> values = new LinkedHashMap<>();
        values.put("target", target == null ? null : target.toString());
        values.put("after", after == null ? null : delay(after.toString()));
        values.put("at", at == null ? null : instant(at));
        values.put("key", key != null || own == null ? key : own.toString());
        values.put("fields", new String(Json.bytes(fields), StandardCharsets.UTF_8));
        return run(function, values);
    }

    private long run(String function, Map<String, String> values) throws SQLException {
        String given = values.keySet().stream().map(name -> name + " => " + CASTS.get(name)).collect(Collectors.joining(", "));
        try (PreparedStatement statement = connection.prepareStatement("SELECT tickwheel." + function + "(" + given + ")")) {
            int place = 0;
            for (String value : values.values())
                statement.setString(++place, value);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                return rows.getLong(1);
            }
        }
    }

    private static String delay(String text) {
        Matcher parts = PARTS.matcher(text);
        if (text.isEmpty() || !parts.matches())
            throw new IllegalArgumentException(text + " is no duration: write a Duration, or units as in \"1h30m\"");
        long sum = 0;
        try {
            for (int i = 0; i < UNITS.length; i++)
                if (parts.group(i + 1) != null)
                    sum = Math.addExact(sum, Math.multiplyExact(Long.parseLong(parts.group(i + 1)), UNITS[i]));
        } catch (ArithmeticException | NumberFormatException error) {
            throw new IllegalArgumentException(text + " is too long", error);
        }
        return Long.toString(sum);
    }

    /** Rounded up to the microsecond, which is what PostgreSQL keeps, so that no timer is early. */
    private static String instant(Object value) {
        Instant instant;
        try {
            instant = value instanceof Instant given ? given
                    : value instanceof Number number ? Instant.ofEpochMilli(number.longValue())
                            : OffsetDateTime.parse(value.toString()).toInstant();
        } catch (DateTimeException error) {
            throw new IllegalArgumentException(value + " is no instant: write an Instant, or RFC 3339 with a zone", error);
        }
        return instant.plusNanos(999).truncatedTo(ChronoUnit.MICROS).toString();
    }
}

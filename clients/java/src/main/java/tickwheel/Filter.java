package tickwheel;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** Selects timers of a list; everything that is set must match. */
public final class Filter {
    private final StringBuilder query = new StringBuilder();

    private Filter add(String name, String value) {
        query.append(query.length() == 0 ? '?' : '&').append(name).append('=')
                .append(URLEncoder.encode(value, StandardCharsets.UTF_8));
        return this;
    }

    /** May be called several times: one of the states. */
    public Filter state(String state) {
        return add("state", state);
    }

    public Filter label(String name, String value) {
        boolean isQuoted = name.contains(":") || name.startsWith("\""); // a name that has a colon
        return add("label", (isQuoted ? '"' + name.replace("\"", "\"\"") + '"' : name) + ":" + value);
    }

    public Filter target(String target) {
        return add("target", target);
    }

    /** Of dead letters. */
    public Filter origin(String origin) {
        return add("origin", origin);
    }

    /** Of dead letters. */
    public Filter error(String error) {
        return add("error", error);
    }

    public Filter dueAfter(Instant at) {
        return add("due_after", at.toString());
    }

    public Filter dueBefore(Instant at) {
        return add("due_before", at.toString());
    }

    public Filter pageSize(int size) {
        return add("limit", Integer.toString(size));
    }

    String query() {
        return query.toString();
    }

    String query(String name, String value) {
        return query + (query.length() == 0 ? "?" : "&") + name + "="
                + URLEncoder.encode(value, StandardCharsets.UTF_8);
    }
}

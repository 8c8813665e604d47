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

    /** Of schedules: how the last firing ended, "never", "ok", "failed" or "skipped". May be called several times. */
    public Filter last(String outcome) {
        return add("last", outcome);
    }

    /** Of schedules: "next", "last" or "failures" first. */
    public Filter sort(String order) {
        return add("sort", order);
    }

    /** How the key begins. */
    public Filter keyPrefix(String prefix) {
        return add("key_prefix", prefix);
    }

    /** A part of the key. */
    public Filter keyContains(String part) {
        return add("key_contains", part);
    }

    /** Of lists of live timers: the key of their flow. */
    public Filter flow(String key) {
        return add("flow", key);
    }

    /** Of deliveries: the id of the timer. */
    public Filter timer(String id) {
        return add("timer", id);
    }

    /** Of deliveries. */
    public Filter key(String key) {
        return add("key", key);
    }

    /** Of deliveries: "done", "failed" or "ended". May be called several times. */
    public Filter outcome(String outcome) {
        return add("outcome", outcome);
    }

    /** Of deliveries: the status of the answer, such as "503" or "5xx". */
    public Filter status(String status) {
        return add("status", status);
    }

    /** Of deliveries: those that ended then or later. */
    public Filter since(Instant at) {
        return add("since", at.toString());
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

package tickwheel;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The fields of a new timer: a target or several, and one of after, at, every, cron and debounce.
 *
 * <pre>{@code Create.to("https://shop.example/recheck").after(Duration.ofMinutes(30)).payload(Map.of("order", 42))}</pre>
 */
public final class Create {
    final Map<String, Object> fields = new LinkedHashMap<>();

    private Create() {
    }

    public static Create to(String target) {
        return new Create().set("target", target);
    }

    /** Several targets, each of which gets its own delivery; the timer is over when all are. */
    public static Create to(List<String> targets) {
        return new Create().set("targets", targets);
    }

    /** Any field, by its name in the API. What is a duration is a Duration, or a text with a unit. */
    public Create set(String name, Object value) {
        fields.put(name, Json.withUnit(name, value));
        return this;
    }

    public Create after(Duration after) {
        return set("after", Json.milliseconds(after));
    }

    public Create at(Instant at) {
        return set("at", at.toString());
    }

    public Create every(Duration every) {
        return set("every", Json.milliseconds(every));
    }

    public Create cron(String cron, String timezone) {
        return set("cron", cron).set("timezone", timezone);
    }

    public Create count(int count) {
        return set("count", count);
    }

    public Create until(Instant until) {
        return set("until", until.toString());
    }

    /** How long a receiver may take that answers later. */
    public Create ackTimeout(Duration time) {
        return set("ack_timeout", Json.milliseconds(time));
    }

    /** Anything that Jackson writes as JSON. */
    public Create payload(Object payload) {
        return set("payload", payload);
    }

    /** Bytes instead of a payload. */
    public Create body(byte[] body, String contentType) {
        return set("body_base64", Base64.getEncoder().encodeToString(body)).set("content_type", contentType);
    }

    /** Items of a queue with equal due times come in the order of creation: "strict". */
    public Create order(String order) {
        return set("order", order);
    }

    /** The method of the webhook: POST, PUT, PATCH, GET or DELETE. The last two have no payload. */
    public Create method(String method) {
        return set("method", method);
    }

    public Create headers(Map<String, String> headers) {
        return set("headers", headers);
    }

    public Create labels(Map<String, String> labels) {
        return set("labels", labels);
    }

    public Create key(String key) {
        return set("key", key);
    }

    public Create watch(String... events) {
        return set("watch", List.of(events));
    }

    /** How often a delivery is tried in all. */
    public Create maxAttempts(int attempts) {
        return retry("max_attempts", attempts);
    }

    /** How long the target may fail before the delivery is given up. */
    public Create giveUpAfter(Duration time) {
        return retry("give_up_after", Json.milliseconds(time));
    }

    /** Of a timer that repeats: retries end when the next firing is due. */
    public Create retryUntilNext() {
        return retry("until", "next");
    }

    /** A firing that is due while the one before is retried or leased: wait, skip or allow. */
    public Create overlap(String overlap) {
        return set("overlap", overlap);
    }

    /** Dates on which it does not fire: dates, ranges of dates, weekdays, calendar:NAME. */
    public Create except(String... dates) {
        return set("except", List.of(dates));
    }

    /** The dates on which it may fire. */
    public Create only(String... dates) {
        return set("only", List.of(dates));
    }

    /** What becomes of a firing on an excluded date: skip, next_workday or previous_workday. */
    public Create onHoliday(String move) {
        return set("on_holiday", move);
    }

    /** In place of a time: so long after the last create or put with the key, no later than so long after the first. */
    public Create debounce(Duration wait, Duration atMost) {
        return set("debounce", Map.of("for", Json.milliseconds(wait), "at_most", Json.milliseconds(atMost)));
    }

    private Create retry(String name, Object value) {
        Map<String, Object> retry = new LinkedHashMap<>();
        if (fields.get("retry") instanceof ObjectNode before)
            before.fields().forEachRemaining(one -> retry.put(one.getKey(), one.getValue()));
        retry.put(name, value);
        return set("retry", retry);
    }

    /** At most so many timers with this key run at a time. */
    public Create flow(String key, int concurrency) {
        return set("flow", Map.of("key", key, "concurrency", concurrency));
    }

    /** At most so many timers with this key run at a time, and start at a rate such as 10/s; 0 and null: no limit. */
    public Create flow(String key, int concurrency, String rate) {
        Map<String, Object> flow = new LinkedHashMap<>(Map.of("key", key));
        if (concurrency > 0)
            flow.put("concurrency", concurrency);
        if (rate != null)
            flow.put("rate", rate);
        return set("flow", flow);
    }

    public Create onDead(String target) {
        return set("on_dead", Map.of("target", target));
    }

    public Create onSuccess(String target) {
        return set("on_success", Map.of("target", target));
    }
}

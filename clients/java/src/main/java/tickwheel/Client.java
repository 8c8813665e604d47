package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.function.Function;
import tickwheel.Transport.Call;

/**
 * Every call of the service, with time-outs and retries: a request that was not answered, or that a busy server
 * refused, is sent again after a random pause that doubles, or as long as Retry-After says. Every create has an
 * Idempotency-Key, so that a repetition makes no second timer. A batch is a stream and is not sent again: give its
 * timers a key, then repeating it is harmless.
 *
 * <p>A client may be shared by threads. Errors are {@link TickwheelException}s.
 */
public final class Client {
    private final Transport transport;

    /** The settings of a client. */
    public static final class Builder {
        private String url = System.getenv("TICKWHEEL_URL");
        private String token = System.getenv("TICKWHEEL_TOKEN");
        private Duration timeout = Duration.ofSeconds(30);
        private int retries = 5;
        private Duration pause = Duration.ofMillis(200);
        private HttpClient http;

        private Builder() {
        }

        /** Default: TICKWHEEL_URL, or http://localhost:8463. */
        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** Default: TICKWHEEL_TOKEN. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** Of each try; 30 seconds. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** How often a request is sent again (5), and the longest first pause (200 ms). */
        public Builder retries(int retries, Duration pause) {
            this.retries = retries;
            this.pause = pause;
            return this;
        }

        /** For TLS and proxies. */
        public Builder http(HttpClient http) {
            this.http = http;
            return this;
        }

        public Client build() {
            URI parsed = URI.create(url == null || url.isEmpty() ? "http://localhost:8463" : url);
            if (parsed.getHost() == null || !List.of("http", "https").contains(parsed.getScheme()))
                throw new IllegalArgumentException(parsed + " is no http or https URL");
            HttpClient used = http != null ? http
                    : HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
            return new Client(new Transport(parsed.toString().replaceAll("/+$", ""), token, timeout, retries, pause,
                    used));
        }
    }

    /** Which timer: by its id, or by its key. */
    public record Ref(String place, String end, boolean isKey) {
        public static Ref id(String id) {
            return new Ref("/v1/timers/" + encode(id), "", false);
        }

        public static Ref key(String key) {
            if (key.equals(".") || key.equals("..") || key.matches("(?s).*[/\\\\%;].*")) // a proxy may decode it
                return new Ref("/v1/key", "?key=" + encode(key), true);
            return new Ref("/v1/keys/" + encode(key), "", true);
        }

        String path() {
            return place + (isKey ? "/timer" : "") + end;
        }

        String path(String verb) {
            return place + "/" + verb + end;
        }
    }

    /** Why something is paused, and until when; without an end (null) a call resumes it. */
    public record Pause(String note, Instant until) {
        private Map<String, Object> fields() {
            Map<String, Object> fields = new LinkedHashMap<>();
            putIfSet(fields, "note", note);
            putIfSet(fields, "until", until == null ? null : until.toString());
            return fields;
        }
    }

    /** Timers of a call for many: those with these ids and keys, and those that have all the labels or watch. */
    public record Selection(Collection<String> ids, Collection<String> keys, Map<String, String> labels,
            String watch) {
        public static Selection ids(Collection<String> ids) {
            return new Selection(ids, null, null, null);
        }

        public static Selection keys(Collection<String> keys) {
            return new Selection(null, keys, null, null);
        }

        public static Selection labels(Map<String, String> labels) {
            return new Selection(null, null, labels, null);
        }

        public static Selection watching(String event) {
            return new Selection(null, null, null, event);
        }

        private Map<String, Object> fields() {
            Map<String, Object> fields = new LinkedHashMap<>();
            putIfSet(fields, "ids", ids);
            putIfSet(fields, "keys", keys);
            putIfSet(fields, "labels", labels);
            putIfSet(fields, "watch", watch);
            return fields;
        }
    }

    private Client(Transport transport) {
        this.transport = transport;
    }

    public static Builder builder() {
        return new Builder();
    }

    /** The client of the daemon at the URL. */
    public static Client of(String url) {
        return builder().url(url).build();
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static void putIfSet(Map<String, Object> fields, String name, Object value) {
        if (value != null)
            fields.put(name, value);
    }

    private Timer timer(Call call) {
        return transport.value(call, Timer.class);
    }

    // ---- one timer ----

    /**
     * Makes a timer. With a key that a live, equal timer has, the answer is that timer; {@link Problem.KeyInUse} if it
     * differs.
     */
    public Timer create(Create create) {
        return create(create, UUID.randomUUID().toString());
    }

    /** The idempotency key names the request for repetitions, also by another process after a crash. */
    public Timer create(Create create, String idempotencyKey) {
        return timer(new Call("POST", "/v1/timers").json(create.fields).header("Idempotency-Key", idempotencyKey));
    }

    /** Makes the timer with this key, or replaces it whole. */
    public Timer put(String key, Create create) {
        return put(key, create, null);
    }

    /** Replaces the timer only if it has this version. */
    public Timer put(String key, Create create, Long onlyVersion) {
        return timer(new Call("PUT", Ref.key(key).path()).json(create.fields).onlyVersion(onlyVersion));
    }

    /** Throws {@link Problem.Gone}, with the timer, when it is final. */
    public Timer get(Ref ref) {
        return timer(new Call("GET", ref.path()));
    }

    /** Applies a merge patch, in the names of the API: null removes. */
    public Timer change(Ref ref, Map<String, ?> patch) {
        return change(ref, patch, null);
    }

    public Timer change(Ref ref, Map<String, ?> patch, Long onlyVersion) {
        return timer(new Call("PATCH", ref.path()).json(Json.withUnits(patch)).header("Content-Type", "application/merge-patch+json")
                .onlyVersion(onlyVersion));
    }

    /** Puts the timer off; never makes it earlier. */
    public Timer touch(Ref ref, Duration after) {
        return timer(new Call("POST", ref.path("touch")).json(Map.of("after", Json.milliseconds(after))));
    }

    public Timer touch(Ref ref, Instant at) {
        return timer(new Call("POST", ref.path("touch")).json(Map.of("at", at.toString())));
    }

    /** After it returns no delivery begins. Throws {@link Problem.AlreadyFiring} or {@link Problem.Gone}. */
    public Timer cancel(Ref ref) {
        return cancel(ref, null);
    }

    public Timer cancel(Ref ref, Long onlyVersion) {
        Call call = new Call("DELETE", ref.path()).onlyVersion(onlyVersion);
        call.isCancel = true;
        return timer(call);
    }

    private Timer act(Ref ref, String verb, Map<String, Object> fields, Long onlyVersion) {
        Call call = new Call("POST", ref.path(verb)).onlyVersion(onlyVersion);
        if (fields != null)
            call.json(fields);
        call.isRepeatable = !(verb.equals("fire") || verb.equals("release")) || onlyVersion != null;
        return timer(call);
    }

    /**
     * Fires the timer now; one that repeats fires beside its planned times. The call is not repeated, since it might
     * fire twice.
     */
    public Timer fire(Ref ref) {
        return fire(ref, null);
    }

    public Timer fire(Ref ref, Long onlyVersion) {
        return act(ref, "fire", null, onlyVersion);
    }

    /** The timer is not delivered before it is resumed. */
    public Timer pause(Ref ref, Pause pause) {
        return pause(ref, pause, null);
    }

    public Timer pause(Ref ref, Pause pause, Long onlyVersion) {
        return act(ref, "pause", pause.fields(), onlyVersion);
    }

    public Timer resume(Ref ref) {
        return resume(ref, null);
    }

    public Timer resume(Ref ref, Long onlyVersion) {
        return act(ref, "resume", null, onlyVersion);
    }

    /** Ends the lease of a queue's item, whose attempt has failed. Not repeated: it might end the next lease too. */
    public Timer release(Ref ref) {
        return release(ref, null);
    }

    public Timer release(Ref ref, Long onlyVersion) {
        return act(ref, "release", null, onlyVersion);
    }

    /** Fires the instants of a timer that repeats from {@code from} on and before {@code to}. Returns the timer that does so. */
    public Timer backfill(Ref ref, Instant from, Instant to) {
        return backfill(ref, from, to, null);
    }

    /** At most so many begin a second, minute or hour: {@code 10/s}. */
    public Timer backfill(Ref ref, Instant from, Instant to, String rate) {
        Map<String, Object> fields = new LinkedHashMap<>(Map.of("from", from.toString(), "to", to.toString()));
        putIfSet(fields, "rate", rate);
        return timer(new Call("POST", ref.path("backfill")).json(fields)
                .header("Idempotency-Key", UUID.randomUUID().toString()));
    }

    /** How many instants a backfill would fire, with the {@code first} and the {@code last}. */
    public JsonNode backfillCount(Ref ref, Instant from, Instant to) {
        return transport.tree(new Call("POST", ref.path("backfill"))
                .json(Map.of("from", from.toString(), "to", to.toString(), "dry_run", true)));
    }

    /** Where the timer is, what it waits for, and why it was late. */
    public JsonNode explain(Ref ref) {
        return transport.tree(new Call("GET", byId(ref).path("explain")));
    }

    /** The last firings of a timer that repeats, the newest first. */
    public List<Answers.Run> runs(Ref ref) {
        return Json.list(transport.tree(new Call("GET", byId(ref).path("runs"))).get("runs"), Answers.Run.class);
    }

    /** The timer, live or over, by its id. */
    private Ref byId(Ref ref) {
        if (!ref.isKey)
            return ref;
        try {
            return Ref.id(get(ref).id());
        } catch (Problem.Gone gone) {
            return Ref.id(gone.timer().orElseThrow(() -> gone).id());
        }
    }

    // ---- in a transaction of the caller's database ----

    /**
     * Calls that take effect if the transaction of this connection commits. It is of PostgreSQL; the service reads the outbox
     * of its database (docs/postgres.md).
     */
    public Transaction inTransaction(Connection connection) {
        return new Transaction(connection);
    }

    // ---- many timers ----

    private static final class Lines extends InputStream {
        private final Iterator<Create> timers;
        private byte[] line = {};
        private int at;

        Lines(Iterator<Create> timers) {
            this.timers = timers;
        }

        private boolean fill() {
            if (at == line.length && timers.hasNext()) {
                line = (new String(Json.bytes(timers.next().fields), StandardCharsets.UTF_8) + "\n")
                        .getBytes(StandardCharsets.UTF_8);
                at = 0;
            }
            return at < line.length;
        }

        @Override
        public int read() {
            return fill() ? line[at++] & 0xff : -1;
        }

        @Override
        public int read(byte[] room, int offset, int length) {
            if (!fill())
                return -1;
            int count = Math.min(length, line.length - at);
            System.arraycopy(line, at, room, offset, count);
            at += count;
            return count;
        }
    }

    /** Makes many timers from a stream; each has a result, in order. */
    public List<Answers.BatchResult> batch(Iterator<Create> timers) {
        Call call = new Call("POST", "/v1/timers/batch").header("Content-Type", "application/x-ndjson");
        call.body = BodyPublishers.ofInputStream(() -> new Lines(timers));
        call.isRepeatable = false;
        List<Answers.BatchResult> results = new ArrayList<>();
        String text = new String(transport.send(call), StandardCharsets.UTF_8);
        text.lines().filter(line -> !line.isEmpty()).forEach(line -> {
            JsonNode tree = Json.tree(line.getBytes(StandardCharsets.UTF_8), 200);
            if (tree.hasNonNull("id"))
                results.add(new Answers.BatchResult(tree.get("id").asText(), tree.path("existed").asBoolean(), null));
            else
                results.add(new Answers.BatchResult(null, false,
                        Problem.of(Json.value(tree, Problem.Body.class))));
        });
        return results;
    }

    public List<Answers.BatchResult> batch(Collection<Create> timers) {
        return batch(timers.iterator());
    }

    /** All timers that match, in due order; pages are read as they are needed. */
    public Iterable<Timer> list(Filter filter) {
        return () -> new Pages<>("/v1/timers", "timers", Timer.class, filter);
    }

    /** All that `name` lists in the answers. */
    private final class Pages<T> implements Iterator<T> {
        private final String path;
        private final String name;
        private final Class<T> kind;
        private final Filter filter;
        private Iterator<T> page = List.<T>of().iterator();
        private String cursor = "";

        Pages(String path, String name, Class<T> kind, Filter filter) {
            this.path = path;
            this.name = name;
            this.kind = kind;
            this.filter = filter;
        }

        @Override
        public boolean hasNext() {
            while (!page.hasNext() && cursor != null) {
                String query = cursor.isEmpty() ? filter.query() : filter.query("cursor", cursor);
                JsonNode body = transport.tree(new Call("GET", path + query));
                page = Json.list(body.get(name), kind).iterator();
                cursor = body.path("next").textValue();
            }
            return page.hasNext();
        }

        @Override
        public T next() {
            if (!hasNext())
                throw new NoSuchElementException();
            return page.next();
        }
    }

    private Answers.Many many(String verb, Map<String, Object> fields) {
        Call call = new Call("POST", "/v1/timers/" + verb).json(fields);
        call.isRepeatable = !verb.equals("fire");
        return transport.value(call, Answers.Many.class);
    }

    private static Map<String, Object> with(Selection selection, Duration after) {
        Map<String, Object> fields = selection.fields();
        fields.put("after", Json.milliseconds(after));
        return fields;
    }

    public Answers.Many cancelMany(Selection selection) {
        return many("cancel", selection.fields());
    }

    public Answers.Many rescheduleMany(Selection selection, Duration after) {
        return many("reschedule", with(selection, after));
    }

    /** By ids and keys. */
    public Answers.Many touchMany(Selection selection, Duration after) {
        return many("touch", with(selection, after));
    }

    /** The call is not repeated, since it might fire twice. */
    public Answers.Many fireMany(Selection selection) {
        return many("fire", selection.fields());
    }

    public Answers.Many pauseMany(Selection selection, Pause pause) {
        Map<String, Object> fields = selection.fields();
        fields.putAll(pause.fields());
        return many("pause", fields);
    }

    public Answers.Many resumeMany(Selection selection) {
        return many("resume", selection.fields());
    }

    /** How many timers live, apart by "state", "origin" of the target, and the value of a label: "label:team". */
    public Answers.Count count(String... by) {
        String query = by.length == 0 ? "" : "?by=" + encode(String.join(",", by));
        return transport.value(new Call("GET", "/v1/timers/count" + query), Answers.Count.class);
    }

    // ---- events ----

    /** Ends the timers that watch the event. */
    public Answers.Completion complete(String event) {
        return transport.value(new Call("POST", "/v1/watch/" + encode(event) + "/complete").json(Map.of()),
                Answers.Completion.class);
    }

    /** Makes the timers that watch the event due now. */
    public Answers.Completion fire(String event) {
        return transport.value(new Call("POST", "/v1/watch/" + encode(event) + "/complete")
                .json(Map.of("fire", true)), Answers.Completion.class);
    }

    /** Up to 5,000 events. */
    public Answers.Completions completeMany(Collection<String> events) {
        return transport.value(new Call("POST", "/v1/watch/complete").json(Map.of("watch", events)),
                Answers.Completions.class);
    }

    /** What happens to timers that match, as it happens; without types, all that does. Close it at the end. */
    public Events events(Filter filter, String... types) {
        return events(filter, null, List.of(types));
    }

    /** The events after the one with this id. */
    public Events events(Filter filter, String lastEventId, Collection<String> types) {
        StringBuilder path = new StringBuilder("/v1/events").append(filter.query());
        for (String type : types)
            path.append(path.indexOf("?") < 0 ? "?" : "&").append("type=").append(encode(type));
        return new Events(transport, path.toString(), lastEventId);
    }

    /** What became of each attempt, the newest first. Of a filter: timer, key, target, origin, outcome, status, since. */
    public Iterable<Answers.Delivery> deliveries(Filter filter) {
        return () -> new Pages<>("/v1/deliveries", "deliveries", Answers.Delivery.class, filter);
    }

    // ---- schedules ----

    /** The timers that repeat, with their last firings. */
    public Iterable<Answers.ScheduleState> schedules(Filter filter) {
        return () -> new Pages<>("/v1/schedules", "schedules", Answers.ScheduleState.class, filter);
    }

    /** The next instants of a cron expression after an instant; null: after now. */
    public List<Instant> preview(String cron, String timezone, Instant after, int count) {
        String query = "?cron=" + encode(cron) + (timezone == null ? "" : "&timezone=" + encode(timezone))
                + (after == null ? "" : "&after=" + encode(after.toString())) + "&n=" + count;
        return Json.list(transport.tree(new Call("GET", "/v1/schedule/preview" + query)).get("instants"),
                Instant.class);
    }

    /** The next instants of the schedule of a timer, with its except, only and onHoliday, after an instant; null: after now. */
    public List<Instant> preview(Create timer, Instant after, int count) {
        StringBuilder query = new StringBuilder("?n=" + count);
        for (String name : List.of("cron", "every", "timezone", "dst", "until", "except", "only", "on_holiday")) {
            Object value = timer.fields.get(name);
            if (value instanceof List<?> dates)
                value = String.join(",", dates.stream().map(Object::toString).toList());
            if (value != null)
                query.append('&').append(name).append('=').append(encode(value.toString()));
        }
        if (after != null)
            query.append("&after=").append(encode(after.toString()));
        return Json.list(transport.tree(new Call("GET", "/v1/schedule/preview" + query)).get("instants"), Instant.class);
    }

    /** How many timers are due in each coming "minute" or "second". */
    public Answers.Forecast forecast(String unit, int count) {
        return transport.value(new Call("GET", "/v1/forecast?unit=" + encode(unit) + "&count=" + count),
                Answers.Forecast.class);
    }

    // ---- queues ----

    /** Up to max due items, for this worker alone until the lease ends; waits that long for the first one. */
    public List<Item> lease(String queue, int max, Duration wait, Duration lease) {
        Call call = new Call("POST", "/v1/queues/" + encode(queue) + "/lease").json(Map.of("max", max,
                "wait", Json.milliseconds(wait), "lease", Json.milliseconds(lease)));
        call.wait = wait;
        JsonNode body = transport.tree(call);
        List<Item> items = Json.list(body.get("items"), Item.class);
        if (items.isEmpty())
            return items;
        Instant until = Json.value(body.path("leased_until"), Instant.class);
        return items.stream().map(item -> item.until(until)).toList();
    }

    private List<String> receipts(String queue, String verb, Collection<String> receipts, Map<String, Object> rest) {
        Map<String, Object> fields = new LinkedHashMap<>(rest);
        fields.put("receipts", receipts);
        return Json.list(transport.tree(new Call("POST", "/v1/queues/" + encode(queue) + "/" + verb).json(fields))
                .get("results"), String.class);
    }

    /** "ok" for each item that is done for good, otherwise "stale" or "unknown". */
    public List<String> ack(String queue, Collection<String> receipts) {
        return receipts(queue, "ack", receipts, Map.of());
    }

    /** Gives items back. Without a delay (null) they come again as the timer's retry says. */
    public List<String> nack(String queue, Collection<String> receipts, Duration delay, String error, boolean dead) {
        Map<String, Object> rest = new LinkedHashMap<>();
        putIfSet(rest, "delay", delay == null ? null : Json.milliseconds(delay));
        putIfSet(rest, "error", error);
        putIfSet(rest, "dead", dead ? true : null);
        return receipts(queue, "nack", receipts, rest);
    }

    /** The leases end that long from now. */
    public List<String> extend(String queue, Collection<String> receipts, Duration lease) {
        return receipts(queue, "extend", receipts, Map.of("lease", Json.milliseconds(lease)));
    }

    /** How full the queues are. */
    public Answers.Queues queues() {
        return transport.value(new Call("GET", "/v1/queues"), Answers.Queues.class);
    }

    public Answers.Queue queue(String name) {
        return transport.value(new Call("GET", "/v1/queues/" + encode(name)), Answers.Queue.class);
    }

    /** The next items of the queue, without a lease. */
    public List<Timer> peek(String queue, int max) {
        return Json.list(transport.tree(new Call("GET", "/v1/queues/" + encode(queue) + "/peek?limit=" + max))
                .get("timers"), Timer.class);
    }

    private Answers.Hold hold(String kind, String name, String verb, Pause pause) {
        Call call = new Call("POST", "/v1/" + kind + "/" + encode(name) + "/" + verb);
        return transport.value(pause == null ? call : call.json(pause.fields()), Answers.Hold.class);
    }

    /** No worker gets an item of the queue before it is resumed. */
    public Answers.Hold pauseQueue(String queue, Pause pause) {
        return hold("queues", queue, "pause", pause);
    }

    public Answers.Hold resumeQueue(String queue) {
        return hold("queues", queue, "resume", null);
    }

    // ---- flows ----

    /** The flows with timers that run or wait, and those that are paused. */
    public JsonNode flows() {
        return transport.tree(new Call("GET", "/v1/flows"));
    }

    /** Sets concurrency, rate and period for all timers of the flow, instead of their own. */
    public JsonNode setFlow(String key, Object limits) {
        return transport.tree(new Call("PUT", "/v1/flows/" + encode(key)).json(limits));
    }

    /** Lets the timers of the flow keep their own limits again. */
    public JsonNode removeFlow(String key) {
        return transport.tree(new Call("DELETE", "/v1/flows/" + encode(key)));
    }

    /** No timer of the flow starts before it is resumed. */
    public Answers.Hold pauseFlow(String key, Pause pause) {
        return hold("flows", key, "pause", pause);
    }

    public Answers.Hold resumeFlow(String key) {
        return hold("flows", key, "resume", null);
    }

    // ---- targets ----

    /** What goes to each target, and which fail. */
    public Answers.Targets targets() {
        return transport.value(new Call("GET", "/v1/targets"), Answers.Targets.class);
    }

    /** Nothing is sent to the target, such as https://shop.example, before it is resumed. */
    public Answers.Hold pauseTarget(String target, Pause pause) {
        return hold("targets", target, "pause", pause);
    }

    public Answers.Hold resumeTarget(String target) {
        return hold("targets", target, "resume", null);
    }

    /** Closes the breakers of the target. */
    public Answers.Hold resetTarget(String target) {
        return hold("targets", target, "reset", null);
    }

    /** All named targets, without their secrets. */
    public JsonNode namedTargets() {
        return transport.tree(new Call("GET", "/v1/named-targets"));
    }

    public JsonNode namedTarget(String name) {
        return transport.tree(new Call("GET", namedTargetPath(name)));
    }

    /**
     * Defines it, or replaces its definition: url, method, headers, auth, ca, signing, limits. Secrets that are left
     * out stay. With a version that is not null only if the definition has it.
     */
    public JsonNode setNamedTarget(String name, Object definition, Long ifVersion) {
        return transport.tree(new Call("PUT", namedTargetPath(name)).json(definition).onlyVersion(ifVersion));
    }

    /** Replaces the secrets that sign its webhooks: signing. Those of before sign too for the time of overlap. */
    public JsonNode rotateNamedTarget(String name, Object rotation) {
        Call call = new Call("POST", namedTargetPath(name) + "/rotate").json(rotation);
        call.isRepeatable = false; // a second one would end the secrets of before
        return transport.tree(call);
    }

    /** From now on attempts of its timers fail, until it is defined again. */
    public JsonNode removeNamedTarget(String name, Long ifVersion) {
        return transport.tree(new Call("DELETE", namedTargetPath(name)).onlyVersion(ifVersion));
    }

    /** Seals all secrets with the first key of the daemon. */
    public JsonNode resealNamedTargets() {
        return transport.tree(new Call("POST", "/v1/named-targets/reseal"));
    }

    /** The keys of the tokens (JWT) of webhooks that the daemon makes itself, and where each stands. */
    public JsonNode tokenKeys() {
        return transport.tree(new Call("GET", "/v1/token-keys"));
    }

    /** Makes a new key, ES256 or RS256, which signs when the overlap is over; null: ES256, and a day. */
    public JsonNode rotateTokenKeys(Duration overlap, String alg) {
        Map<String, Object> rotation = new LinkedHashMap<>();
        if (overlap != null)
            rotation.put("overlap", Json.milliseconds(overlap));
        if (alg != null)
            rotation.put("alg", alg);
        Call call = new Call("POST", "/v1/token-keys/rotate").json(rotation);
        call.isRepeatable = false; // each makes a key
        return transport.tree(call);
    }

    private static String namedTargetPath(String name) {
        return "/v1/named-targets/" + encode(name);
    }

    // ---- answers that come later ----

    /**
     * Ends an attempt that the receiver answered with {@code Tickwheel-Ack: later}: the timer has fired. The URL is the
     * webhook's Tickwheel-Ack-Url; its last part is used, with this client's service.
     */
    public void answerAck(String url) {
        answer(url, "ack", Map.of());
    }

    /** Ends it without success; the reason, which may be null, is the timer's last error. */
    public void answerNack(String url, String reason) {
        answer(url, "nack", reason == null ? Map.of() : Map.of("reason", reason));
    }

    /** The time for the answer ends so long from now. */
    public void answerExtend(String url, Duration by) {
        answer(url, "extend", Map.of("by", Json.milliseconds(by)));
    }

    private void answer(String url, String verb, Object given) {
        String path = url.split("\\?")[0]; // the rest of a webhook's URL is not trusted
        String name = path.substring(path.lastIndexOf('/') + 1);
        Call call = new Call("POST", "/answers/" + encode(name) + "/" + verb).json(given);
        call.mayBeEarly = true;
        transport.send(call);
    }

    // ---- calendars of holidays ----

    /** The calendars that schedules can name, of the tenant and of all tenants, without their days. */
    public List<Answers.Calendar> calendars() {
        return Json.list(transport.tree(new Call("GET", "/v1/calendars")).get("calendars"), Answers.Calendar.class);
    }

    /** The coming days of a calendar. */
    public Answers.Calendar calendar(String name) {
        return transport.value(new Call("GET", "/v1/calendars/" + encode(name)), Answers.Calendar.class);
    }

    /** Sets a calendar of the tenant. A date may be a range: 2026-12-24/2027-01-01. */
    public Answers.Calendar putCalendar(String name, List<Answers.Day> days) {
        List<Map<String, String>> fields = new ArrayList<>();
        for (Answers.Day day : days)
            fields.add(day.name() == null ? Map.of("date", day.date()) : Map.of("date", day.date(), "name", day.name()));
        return transport.value(new Call("PUT", "/v1/calendars/" + encode(name)).json(fields), Answers.Calendar.class);
    }

    public Answers.Calendar deleteCalendar(String name) {
        return transport.value(new Call("DELETE", "/v1/calendars/" + encode(name)), Answers.Calendar.class);
    }

    // ---- the service ----

    /** Whether the process runs. */
    public JsonNode health() {
        return transport.tree(new Call("GET", "/healthz"));
    }

    /** Returns when requests are served. Otherwise throws a {@link Problem}, whose detail says why; it is not repeated. */
    public JsonNode ready() {
        Call call = new Call("GET", "/readyz");
        call.isRepeatable = false;
        return transport.tree(call);
    }

    /** The metrics, in the text format of Prometheus. */
    public String metrics() {
        return new String(transport.send(new Call("GET", "/metrics")), StandardCharsets.UTF_8);
    }

    /** The main figures of the daemon. */
    public JsonNode stats() {
        return transport.tree(new Call("GET", "/v1/stats"));
    }

    /** The past of the main figures: of "1h", "24h" or "7d". */
    public JsonNode history(String window) {
        return transport.tree(new Call("GET", "/v1/history?window=" + encode(window)));
    }

    /** Whether timers are on time, and who waits for what. */
    public JsonNode verdict() {
        return transport.tree(new Call("GET", "/v1/verdict"));
    }

    /** What each tenant uses, and its limits. */
    public List<JsonNode> tenants() {
        List<JsonNode> all = new ArrayList<>();
        for (String query = ""; query != null;) {
            JsonNode page = transport.tree(new Call("GET", "/v1/tenants" + query));
            page.path("tenants").forEach(all::add);
            String next = page.path("next").textValue();
            query = next == null ? null : "?cursor=" + encode(next);
        }
        return all;
    }

    /** The nodes of the cluster and its partitions. */
    public JsonNode cluster() {
        return transport.tree(new Call("GET", "/v1/cluster"));
    }

    /** Has a node of the cluster give its partitions to the others, and take none back. */
    public JsonNode drainNode(int node) {
        return transport.tree(new Call("PUT", "/v1/cluster/nodes/" + node + "/drain"));
    }

    public JsonNode undrainNode(int node) {
        return transport.tree(new Call("DELETE", "/v1/cluster/nodes/" + node + "/drain"));
    }

    public JsonNode maintenance() {
        return transport.tree(new Call("GET", "/v1/admin/maintenance"));
    }

    /** Holds all deliveries back; the note may be null. */
    public JsonNode beginMaintenance(String note) {
        return transport.tree(new Call("PUT", "/v1/admin/maintenance").json(new Pause(note, null).fields()));
    }

    public JsonNode endMaintenance() {
        return transport.tree(new Call("DELETE", "/v1/admin/maintenance"));
    }

    /** Copies the data folder while the daemon runs. */
    public JsonNode backup() {
        return transport.tree(new Call("POST", "/v1/admin/backup"));
    }

    // ---- dead letters ----

    /** Dead letters, oldest first. */
    public Iterable<Timer> dead(Filter filter) {
        return () -> new Pages<>("/v1/dead", "timers", Timer.class, filter);
    }

    /** Dead letters counted by origin and error. */
    public List<Answers.DeadGroup> deadGroups(Filter filter) {
        return Json.list(transport.tree(new Call("GET", "/v1/dead/groups" + filter.query())).get("groups"),
                Answers.DeadGroup.class);
    }

    private Answers.DeadResult deadPages(Function<String, Call> page) {
        int redriven = 0;
        int deleted = 0;
        int failed = 0;
        for (String cursor = "";;) {
            Answers.DeadResult body = transport.value(page.apply(cursor), Answers.DeadResult.class);
            redriven += body.redriven();
            deleted += body.deleted();
            failed += body.failed();
            cursor = body.next();
            if (cursor == null)
                return new Answers.DeadResult(redriven, deleted, failed, null);
        }
    }

    /** Makes dead letters due again: the fields of docs/queues.md, such as target, origin, error, rate, new_target or all. */
    public Answers.DeadResult redrive(Map<String, ?> selection) {
        return deadPages(cursor -> {
            Map<String, Object> fields = new LinkedHashMap<>(selection);
            if (!cursor.isEmpty())
                fields.put("cursor", cursor);
            return new Call("POST", "/v1/dead/redrive").json(fields);
        });
    }

    public Timer deleteDeadLetter(String id) {
        return timer(new Call("DELETE", "/v1/dead/" + encode(id)));
    }

    /** Deletes all dead letters that match. This cannot be undone. */
    public Answers.DeadResult deleteDead(Filter filter) {
        return deadPages(cursor -> new Call("DELETE",
                "/v1/dead" + (cursor.isEmpty() ? filter.query() : filter.query("cursor", cursor))));
    }
}

package tickwheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;

/** The contract of all client libraries (clients/contract), on a real daemon. */
@EnabledIfEnvironmentVariable(named = "TICKWHEEL_CONTRACT", matches = ".+")
class ContractTest {
    private static final String URL = System.getenv("TICKWHEEL_URL");
    /** Writes records back as the API has them: what is null is left out, instants are texts. */
    private static final JsonMapper BACK = Json.MAPPER.rebuild()
            .serializationInclusion(com.fasterxml.jackson.annotation.JsonInclude.Include.NON_NULL)
            .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS)
            .addModule(new com.fasterxml.jackson.databind.module.SimpleModule("back").addSerializer(Instant.class,
                    new com.fasterxml.jackson.databind.ser.std.ToStringSerializerBase(Instant.class) {
                        private static final long serialVersionUID = 1;

                        @Override
                        public String valueToString(Object value) {
                            return java.time.format.DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
                                    .withZone(java.time.ZoneOffset.UTC).format((Instant) value);
                        }
                    }))
            .build();

    private final Client client = Client.builder().url(URL).retries(5, Duration.ofMillis(1)).build();

    private static Map<String, Object> membersOf(JsonNode object) {
        Map<String, Object> members = new HashMap<>();
        object.fields().forEachRemaining(one -> members.put(one.getKey(), one.getValue()));
        return members;
    }

    private static JsonNode fillIn(JsonNode value, Map<String, String> names) throws IOException {
        String text = value.toString();
        for (Map.Entry<String, String> name : names.entrySet())
            text = text.replace("${" + name.getKey() + "}", name.getValue());
        return BACK.readTree(text);
    }

    /** Everything that is expected is there; there may be more. */
    private static void check(JsonNode expected, JsonNode seen, String where) {
        assertNotNull(seen, where);
        if (expected.isObject()) {
            expected.fields().forEachRemaining(
                    field -> check(field.getValue(), seen.get(field.getKey()), where + "." + field.getKey()));
        } else if (expected.isArray()) {
            assertEquals(expected.size(), seen.size(), where + ": " + seen);
            for (int i = 0; i < expected.size(); i++)
                check(expected.get(i), seen.get(i), where + "[" + i + "]");
        } else if (expected.isNumber()) {
            assertEquals(expected.asDouble(), seen.asDouble(), where);
        } else {
            assertEquals(expected, seen, where);
        }
    }

    private static Create create(JsonNode given) {
        Create create = given.has("targets") ? Create.to(texts(given.get("targets")))
                : Create.to(given.get("target").asText());
        given.fields().forEachRemaining(field -> create.set(field.getKey(), field.getValue()));
        return create;
    }

    private static Client.Ref ref(JsonNode given) {
        return given.has("id") ? Client.Ref.id(given.get("id").asText()) : Client.Ref.key(given.get("key").asText());
    }

    private static Long version(JsonNode given) {
        return given.has("if_version") ? given.get("if_version").asLong() : null;
    }

    private static Duration duration(JsonNode given, String name, String otherwise) {
        return Duration.parse("PT" + given.path(name).asText(otherwise));
    }

    private static Duration by(JsonNode given) {
        String by = given.get("by").asText();
        return by.endsWith("ms") ? Duration.ofMillis(Long.parseLong(by.replace("ms", "")))
                : Duration.parse("PT" + by.toUpperCase());
    }

    private static List<String> texts(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false).map(JsonNode::asText).toList();
    }

    private static List<Answers.Day> days(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false)
                .map(day -> new Answers.Day(day.get("date").asText(), day.path("name").textValue())).toList();
    }

    private static Map<String, String> labels(JsonNode given) {
        Map<String, String> labels = new HashMap<>();
        given.path("labels").fields().forEachRemaining(one -> labels.put(one.getKey(), one.getValue().asText()));
        return labels;
    }

    private static void filter(Filter filter, String name, String value) {
        switch (name) {
            case "key_prefix" -> filter.keyPrefix(value);
            case "key_contains" -> filter.keyContains(value);
            case "origin" -> filter.origin(value);
            case "flow_key" -> filter.flow(value);
            case "sort" -> filter.sort(value);
            case "timer" -> filter.timer(value);
            default -> filter.status(value);
        }
    }

    private static Create schedule(JsonNode given) {
        return Create.to("queue:x").cron(given.get("cron").asText(), given.get("timezone").asText())
                .except(texts(given.get("except")).toArray(new String[0])).onHoliday(given.get("on_holiday").asText());
    }

    private static Filter filter(JsonNode given) {
        Filter filter = new Filter();
        texts(given.path("states")).forEach(filter::state);
        labels(given).forEach(filter::label);
        if (given.has("target"))
            filter.target(given.get("target").asText());
        if (given.has("due_after"))
            filter.dueAfter(Instant.parse(given.get("due_after").asText()));
        if (given.has("due_before"))
            filter.dueBefore(Instant.parse(given.get("due_before").asText()));
        for (String name : List.of("key_prefix", "key_contains", "origin", "flow_key", "sort", "timer", "status"))
            if (given.has(name))
                filter(filter, name, given.get(name).asText());
        texts(given.path("last")).forEach(filter::last);
        texts(given.path("outcomes")).forEach(filter::outcome);
        if (given.has("since"))
            filter.since(Instant.parse(given.get("since").asText()));
        if (given.has("page_size"))
            filter.pageSize(given.get("page_size").asInt());
        return filter;
    }

    private static Client.Selection selection(JsonNode given) {
        return given.has("keys") ? Client.Selection.keys(texts(given.get("keys")))
                : Client.Selection.labels(labels(given));
    }

    private static <T> List<T> all(Iterable<T> found) {
        List<T> list = new ArrayList<>();
        found.forEach(list::add);
        return list;
    }

    private static JsonNode batchResult(Answers.BatchResult result) {
        ObjectNode line = BACK.createObjectNode().put("existed", result.existed());
        if (result.id() != null)
            line.put("id", result.id());
        if (result.problem() != null)
            line.set("error", errorAsJson(result.problem()));
        return line;
    }

    private static JsonNode errorAsJson(TickwheelException error) {
        ObjectNode json = BACK.createObjectNode().put("type", error.type());
        if (error instanceof Problem problem) {
            json.put("status", problem.status());
            json.set("errors", BACK.valueToTree(problem.errors()));
            problem.timer().ifPresent(timer -> json.set("timer", BACK.valueToTree(timer)));
        }
        return json;
    }

    private static Client.Pause pause(JsonNode given) {
        return new Client.Pause(given.path("note").textValue(),
                given.has("until") ? Instant.parse(given.get("until").asText()) : null);
    }

    private Object callService(String verb, JsonNode given) {
        String queue = given.path("queue").asText();
        String target = given.path("target").asText();
        return switch (verb) {
            case "fire" -> client.fire(ref(given), version(given));
            case "pause" -> client.pause(ref(given), pause(given), version(given));
            case "resume" -> client.resume(ref(given), version(given));
            case "release" -> client.release(ref(given), version(given));
            case "backfill" -> client.backfill(ref(given), Instant.parse(given.get("from").asText()),
                    Instant.parse(given.get("to").asText()), given.path("rate").textValue());
            case "backfill_count" -> client.backfillCount(ref(given), Instant.parse(given.get("from").asText()),
                    Instant.parse(given.get("to").asText()));
            case "fire_many" -> client.fireMany(selection(given));
            case "pause_many" -> client.pauseMany(selection(given), pause(given));
            case "resume_many" -> client.resumeMany(selection(given));
            case "events" -> {
                List<Events.Event> found = new ArrayList<>();
                try (Events events = client.events(filter(given), texts(given.path("types")).toArray(String[]::new))) {
                    while (found.size() < given.get("take").asInt())
                        found.add(events.next());
                }
                yield found;
            }
            case "schedules" -> all(client.schedules(filter(given)));
            case "deliveries" -> all(client.deliveries(given.has("key") ? filter(given).key(given.get("key").asText())
                    : filter(given)));
            case "health" -> client.health();
            case "ready" -> client.ready();
            case "metrics" -> client.metrics().contains(given.get("has").asText());
            case "count" -> client.count(texts(given.path("by")).toArray(String[]::new));
            case "queues" -> client.queues();
            case "queue" -> client.queue(queue);
            case "peek" -> client.peek(queue, given.get("max").asInt());
            case "queue_pause" -> client.pauseQueue(queue, pause(given));
            case "queue_resume" -> client.resumeQueue(queue);
            case "flows" -> client.flows();
            case "flow_set" -> client.setFlow(given.get("key").asText(), given.get("limits"));
            case "flow_remove" -> client.removeFlow(given.get("key").asText());
            case "flow_pause" -> client.pauseFlow(given.get("key").asText(), pause(given));
            case "flow_resume" -> client.resumeFlow(given.get("key").asText());
            case "targets" -> client.targets();
            case "target_pause" -> client.pauseTarget(target, pause(given));
            case "target_resume" -> client.resumeTarget(target);
            case "target_reset" -> client.resetTarget(target);
            case "named_targets" -> client.namedTargets();
            case "named_target_get" -> client.namedTarget(given.get("name").asText());
            case "named_target_set" -> client.setNamedTarget(given.get("name").asText(), given.get("definition"),
                    given.has("if_version") ? given.get("if_version").asLong() : null);
            case "named_target_rotate" -> client.rotateNamedTarget(given.get("name").asText(), given.get("rotation"));
            case "named_target_remove" -> client.removeNamedTarget(given.get("name").asText(), null);
            case "named_targets_reseal" -> client.resealNamedTargets();
            case "token_keys" -> client.tokenKeys();
            case "token_keys_rotate" -> client.rotateTokenKeys(duration(given, "overlap", "1d"), given.get("alg").asText());
            case "calendars" -> client.calendars();
            case "calendar" -> client.calendar(given.get("calendar").asText());
            case "calendar_put" -> client.putCalendar(given.get("calendar").asText(), days(given.get("days")));
            case "answer_ack" -> {
                client.answerAck(given.get("url").asText());
                yield Map.of();
            }
            case "answer_nack" -> {
                client.answerNack(given.get("url").asText(), given.path("reason").textValue());
                yield Map.of();
            }
            case "answer_extend" -> {
                client.answerExtend(given.get("url").asText(), by(given));
                yield Map.of();
            }
            case "calendar_delete" -> client.deleteCalendar(given.get("calendar").asText());
            case "stats" -> client.stats();
            case "history" -> client.history(given.get("window").asText());
            case "verdict" -> client.verdict();
            case "tenants" -> client.tenants();
            case "cluster" -> client.cluster();
            case "cluster_drain" -> client.drainNode(given.get("node").asInt());
            case "cluster_undrain" -> client.undrainNode(given.get("node").asInt());
            case "maintenance" -> client.maintenance();
            case "maintenance_begin" -> client.beginMaintenance(given.path("note").textValue());
            case "maintenance_end" -> client.endMaintenance();
            case "backup" -> client.backup();
            case "dead_delete_one" -> client.deleteDeadLetter(given.get("id").asText());
            default -> fail("no call " + verb);
        };
    }

    private Object call(String verb, JsonNode given) throws IOException, InterruptedException {
        String queue = given.path("queue").asText();
        List<String> receipts = texts(given.path("receipts"));
        return switch (verb) {
            case "create" -> client.create(create(given));
            case "put" -> {
                ObjectNode fields = ((ObjectNode) given).deepCopy();
                fields.remove(List.of("key", "if_version"));
                yield client.put(given.get("key").asText(), create(fields), version(given));
            }
            case "get" -> client.get(ref(given));
            case "change" -> client.change(ref(given), membersOf(given.get("patch")), version(given));
            case "touch" -> given.has("at") ? client.touch(ref(given), Instant.parse(given.get("at").asText()))
                    : client.touch(ref(given), duration(given, "after", "0s"));
            case "cancel" -> client.cancel(ref(given), version(given));
            case "list" -> all(client.list(filter(given)));
            case "batch" -> {
                Iterator<Create> timers = StreamSupport.stream(given.get("timers").spliterator(), false)
                        .map(ContractTest::create).iterator();
                yield client.batch(timers).stream().map(ContractTest::batchResult).toList();
            }
            case "cancel_many" -> client.cancelMany(selection(given));
            case "touch_many" -> client.touchMany(selection(given), duration(given, "after", "0s"));
            case "reschedule_many" -> client.rescheduleMany(selection(given), duration(given, "after", "0s"));
            case "complete" -> client.complete(given.get("event").asText());
            case "complete_many" -> client.completeMany(texts(given.get("events")));
            case "preview" -> given.has("except") ? client.preview(schedule(given), Instant.parse(given.get("after").asText()),
                    given.path("n").asInt(10)) : client.preview(given.get("cron").asText(), given.path("timezone").textValue(),
                    given.has("after") ? Instant.parse(given.get("after").asText()) : null,
                    given.path("n").asInt(10));
            case "runs" -> client.runs(ref(given));
            case "explain" -> client.explain(ref(given));
            case "forecast" -> client.forecast(given.get("unit").asText(), given.get("count").asInt());
            case "lease" -> client.lease(queue, given.path("max").asInt(1), duration(given, "wait", "0s"),
                    duration(given, "lease", "30s"));
            case "ack" -> client.ack(queue, receipts);
            case "nack" -> client.nack(queue, receipts, given.has("delay") ? duration(given, "delay", "") : null,
                    given.path("error").textValue(), given.path("dead").asBoolean());
            case "extend" -> client.extend(queue, receipts, duration(given, "lease", "30s"));
            case "dead_list" -> all(client.dead(filter(given)));
            case "dead_groups" -> client.deadGroups(filter(given));
            case "dead_redrive" -> client.redrive(membersOf(given));
            case "dead_delete" -> client.deleteDead(filter(given));
            case "verify" -> new WebhookVerifier(given.get("secret").asText()).isValid(
                    name -> given.get("headers").path(name).textValue(),
                    Base64.getDecoder().decode(given.get("body_base64").asText()));
            case "faults" -> BACK.readTree(HttpClient.newHttpClient().send(
                    HttpRequest.newBuilder(URI.create(URL + "/_faults"))
                            .POST(HttpRequest.BodyPublishers.ofString(given.toString())).build(),
                    HttpResponse.BodyHandlers.ofString()).body());
            default -> callService(verb, given);
        };
    }

    private void runStep(JsonNode step, Map<String, String> names, String where) throws Exception {
        JsonNode seen;
        try {
            seen = BACK.valueToTree(call(step.get("do").asText(), fillIn(step.get("with"), names)));
        } catch (TickwheelException error) {
            if (!step.has("error"))
                throw error;
            check(fillIn(step.get("error"), names), errorAsJson(error), where);
            return;
        }
        if (step.has("error"))
            fail(where + ": " + seen);
        if (step.has("expect"))
            check(fillIn(step.get("expect"), names), seen, where);
        step.path("save").fields().forEachRemaining(name -> {
            JsonNode value = seen;
            for (String part : name.getValue().asText().split("\\."))
                value = part.matches("[0-9]+") ? value.get(Integer.parseInt(part)) : value.get(part);
            names.put(name.getKey(), value.asText());
        });
    }

    @Test
    void aBareNumberIsNoDuration() {
        Create create = Create.to("queue:a");
        for (Executable call : List.<Executable>of(() -> create.set("after", 30), () -> create.set("every", 1.5),
                () -> create.set("retry", Map.of("base", 5)), () -> create.set("late", Map.of("drop_after", 5L)),
                () -> client.change(Client.Ref.id("a"), Map.of("after", 30)),
                () -> client.change(Client.Ref.id("a"), Map.of("spread", Map.of("window", 5)))))
            assertTrue(assertThrows(IllegalArgumentException.class, call).getMessage().contains("is no duration"));
        create.set("after", Duration.ofSeconds(30)).set("retry", Map.of("base", Duration.ofSeconds(5))).maxAttempts(3);
        assertEquals("30000ms", create.fields.get("after"));
        assertEquals("{\"base\":\"5000ms\",\"max_attempts\":3}", create.fields.get("retry").toString());
    }

    @TestFactory
    Stream<DynamicTest> contract() throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        List<Path> files;
        try (Stream<Path> found = Files.list(Path.of(System.getenv("TICKWHEEL_CONTRACT")))) {
            files = found.sorted().toList();
        }
        for (Path file : files)
            for (JsonNode one : BACK.readTree(Files.readAllBytes(file)))
                tests.add(DynamicTest.dynamicTest(one.get("name").asText(), () -> {
                    Map<String, String> names = new HashMap<>(
                            Map.of("run", UUID.randomUUID().toString().substring(0, 8)));
                    int number = 0;
                    for (JsonNode step : one.get("steps"))
                        runStep(step, names, "step " + ++number + ", " + step.get("do").asText());
                }));
        return tests.stream();
    }
}

package tickwheel;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.deser.std.FromStringDeserializer;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON in the names of the API; answers may have fields that this version does not know. */
final class Json {
    private static final class Instants extends FromStringDeserializer<Instant> {
        private static final long serialVersionUID = 1;

        Instants() {
            super(Instant.class);
        }

        @Override
        protected Instant _deserialize(String text, com.fasterxml.jackson.databind.DeserializationContext context) {
            return Instant.parse(text);
        }
    }

    static final JsonMapper MAPPER = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .addModule(new SimpleModule().addDeserializer(Instant.class, new Instants()))
            .build();

    private Json() {
    }

    /** Rounded up to the millisecond, as the service rounds. */
    static String milliseconds(Duration duration) {
        return duration.plusNanos(999_999).toMillis() + "ms";
    }

    /** Members that are durations, of a timer and of its objects. */
    private static final Map<String, List<String>> DURATIONS = Map.of("retry",
            List.of("base", "cap", "timeout", "give_up_after"), "late", List.of("drop_after"), "spread", List.of("window"),
            "debounce", List.of("for", "at_most"));

    /** The value of a field of a timer: a Duration is written with its unit, and a bare number is refused. */
    static Object withUnit(String name, Object value) {
        if (List.of("after", "every", "ack_timeout").contains(name))
            return duration(value);
        List<String> members = DURATIONS.get(name);
        if (members == null || !(MAPPER.valueToTree(value instanceof Map<?, ?> map ? plain(map, members) : value)
                instanceof ObjectNode object))
            return value;
        members.forEach(member -> duration(object.get(member)));
        return object;
    }

    /** The fields of a timer, each as withUnit has it. */
    static Map<String, Object> withUnits(Map<String, ?> fields) {
        Map<String, Object> made = new LinkedHashMap<>();
        fields.forEach((name, value) -> made.put(name, withUnit(name, value)));
        return made;
    }

    private static Map<String, Object> plain(Map<?, ?> map, List<String> members) {
        Map<String, Object> made = new LinkedHashMap<>();
        map.forEach((name, value) -> made.put(String.valueOf(name),
                members.contains(String.valueOf(name)) ? duration(value) : value));
        return made;
    }

    private static Object duration(Object value) {
        if (value instanceof Duration duration)
            return milliseconds(duration);
        if (value instanceof Number || value instanceof JsonNode node && node.isNumber())
            throw new IllegalArgumentException(value + " is no duration: write a Duration, or a unit as in \"30s\"");
        return value;
    }

    static byte[] bytes(Object value) {
        try {
            return MAPPER.writeValueAsBytes(value);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("a field that is no JSON: " + error.getMessage(), error);
        }
    }

    static JsonNode tree(byte[] text, int status) {
        try {
            JsonNode tree = MAPPER.readTree(text);
            if (tree != null && !tree.isMissingNode())
                return tree;
        } catch (java.io.IOException error) {
            throw new TickwheelException.BadAnswer("status " + status + " with a body that is no JSON", error);
        }
        throw new TickwheelException.BadAnswer("status " + status + " without a body", null);
    }

    static <T> T value(JsonNode tree, Class<T> kind) {
        return value(tree, MAPPER.constructType(kind));
    }

    static <T> T value(JsonNode tree, JavaType kind) {
        try {
            T value = MAPPER.treeToValue(tree, kind);
            if (value != null)
                return value;
        } catch (JsonProcessingException | IllegalArgumentException error) {
            throw new TickwheelException.BadAnswer("an answer without what it must have", error);
        }
        throw new TickwheelException.BadAnswer("an answer without what it must have", null);
    }

    static <T> List<T> list(JsonNode tree, Class<T> kind) {
        return value(tree == null ? MAPPER.nullNode() : tree,
                MAPPER.getTypeFactory().constructCollectionType(List.class, kind));
    }
}

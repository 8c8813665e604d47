package tickwheel;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.deser.std.FromStringDeserializer;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import java.time.Duration;
import java.time.Instant;

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

    static <T> java.util.List<T> list(JsonNode tree, Class<T> kind) {
        return value(tree == null ? MAPPER.nullNode() : tree,
                MAPPER.getTypeFactory().constructCollectionType(java.util.List.class, kind));
    }
}

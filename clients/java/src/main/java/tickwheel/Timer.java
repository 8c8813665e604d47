package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** A timer as the service shows it; what it does not have is null. */
public record Timer(String id, Instant due, String state, long version, String key, String target, String method,
        JsonNode payload,
        String bodyBase64, String contentType, Map<String, String> headers, Map<String, String> labels,
        List<String> watch, JsonNode schedule, JsonNode retry, JsonNode onDead, JsonNode onSuccess, int attempts,
        String lastError, Instant created, Answers.Paused paused) {

    /** The bytes of a timer that was created with a body; null: it has a payload, or nothing. */
    public byte[] body() {
        return bodyBase64 == null ? null : Base64.getDecoder().decode(bodyBase64);
    }
}

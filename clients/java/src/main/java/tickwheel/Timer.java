package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** A timer as the service shows it; what it does not have is null. */
public record Timer(String id, Instant due, String state, long version, String key, String target,
        List<TargetOutcome> targets, String partOf, String method, String ackTimeout, JsonNode payload,
        String bodyBase64, String contentType, Map<String, String> headers, Map<String, String> labels,
        List<String> watch, JsonNode flow, String order, JsonNode schedule, JsonNode debounce,
        String firingOf, JsonNode retry, JsonNode onDead, JsonNode onSuccess, int attempts, String lastError,
        Instant nextAttempt, Instant created, Instant ended, Answers.Paused paused, String reportOf, List<Answers.Run> runs) {

    /** One of several targets, and how it stands in the last firing; `id` is that of its part. */
    public record TargetOutcome(String target, String state, Instant due, String id, int attempts, String lastError) {
    }

    /** The bytes of a timer that was created with a body; null: it has a payload, or nothing. */
    public byte[] body() {
        return bodyBase64 == null ? null : Base64.getDecoder().decode(bodyBase64);
    }
}

package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;

/** An item of a queue, leased to this worker until {@code leasedUntil}; what it does not have is null. */
public record Item(String receipt, String id, Instant due, int attempt, JsonNode payload, String bodyBase64,
        String contentType, Map<String, String> headers, Map<String, String> labels, String lastError,
        Instant leasedUntil) {

    Item until(Instant end) {
        return new Item(receipt, id, due, attempt, payload, bodyBase64, contentType, headers, labels, lastError, end);
    }

    public byte[] body() {
        return bodyBase64 == null ? null : Base64.getDecoder().decode(bodyBase64);
    }
}

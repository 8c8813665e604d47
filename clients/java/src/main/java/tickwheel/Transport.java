package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/** Sends calls, as often as it takes. */
final class Transport {
    private static final Duration PAUSE_MAX = Duration.ofSeconds(5);
    private static final Duration RETRY_AFTER_MAX = Duration.ofSeconds(60);

    private final String url;
    private final String token;
    private final Duration timeout;
    private final int retries;
    private final Duration pause;
    private final HttpClient http;

    /** A request, and how its answer is to be taken. */
    static final class Call {
        final String method;
        final String path;
        final Map<String, String> headers = new LinkedHashMap<>();
        BodyPublisher body = BodyPublishers.noBody();
        Duration wait = Duration.ZERO; // how long the server may take by intention
        boolean isRepeatable = true;
        boolean isCancel;
        boolean mayBeEarly; // it may come before the service has recorded what it is about

        Call(String method, String path) {
            this.method = method;
            this.path = path;
        }

        Call json(Object value) {
            body = BodyPublishers.ofByteArray(Json.bytes(value));
            headers.put("Content-Type", "application/json");
            return this;
        }

        Call header(String name, String value) {
            headers.put(name, value);
            return this;
        }

        /** Only if the timer has this version; null: any. */
        Call onlyVersion(Long version) {
            return version == null ? this : header("If-Match", "\"" + version + "\"");
        }
    }

    record Answer(int status, byte[] body, Duration retryAfter) {
    }

    Transport(String url, String token, Duration timeout, int retries, Duration pause, HttpClient http) {
        this.url = url;
        this.token = token;
        this.timeout = timeout;
        this.retries = retries;
        this.pause = pause;
        this.http = http;
    }

    private <T> HttpResponse<T> exchange(Call call, HttpResponse.BodyHandler<T> handler) throws IOException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + call.path))
                .timeout(timeout.plus(call.wait)).method(call.method, call.body)
                .header("User-Agent", "tickwheel-java/0.2.0");
        call.headers.forEach(request::header);
        if (token != null)
            request.header("Authorization", "Bearer " + token);
        try {
            return http.send(request.build(), handler);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new UncheckedIOException(new IOException("interrupted", error));
        }
    }

    private static Answer answerOf(HttpResponse<?> response, byte[] body) {
        String seconds = response.headers().firstValue("Retry-After").orElse("0");
        return new Answer(response.statusCode(), body,
                seconds.matches("[0-9]{1,9}") ? Duration.ofSeconds(Long.parseLong(seconds)) : Duration.ZERO);
    }

    private Answer attempt(Call call) throws IOException {
        HttpResponse<byte[]> response = exchange(call, HttpResponse.BodyHandlers.ofByteArray());
        return answerOf(response, response.body());
    }

    /** Waits before the next try of a stream; throws when there is none. */
    void waitAfter(int tried, String path, IOException error) {
        if (tried > retries)
            throw new TickwheelException.Unreachable("GET " + url + path + ": " + error, error);
        sleep(tried, Duration.ZERO);
    }

    /** The bytes of a stream, after as many tries as it takes; this one has the number `tried`. */
    InputStream open(Call call, int tried) {
        for (;; tried++) {
            boolean mayTryAgain = tried <= retries;
            Duration wanted = Duration.ZERO;
            try {
                HttpResponse<InputStream> response = exchange(call, HttpResponse.BodyHandlers.ofInputStream());
                if (response.statusCode() == 200)
                    return response.body();
                Answer answer = answerOf(response, response.body().readAllBytes());
                if (!mayTryAgain || !passes(answer)) {
                    take(call, answer, false);
                    throw new TickwheelException.BadAnswer("status " + answer.status + " without a stream", null);
                }
                wanted = answer.retryAfter;
            } catch (IOException error) {
                if (!mayTryAgain)
                    throw new TickwheelException.Unreachable(call.method + " " + url + call.path + ": " + error, error);
            }
            sleep(tried, wanted);
        }
    }

    /** The problem of an answer; null: it has success. */
    private static Problem problemOf(Answer answer) {
        if (answer.status < 400)
            return null;
        JsonNode tree = Json.tree(answer.body, answer.status);
        if (!tree.path("type").isTextual())
            throw new TickwheelException.BadAnswer("status " + answer.status + " without a problem", null);
        return Problem.of(Json.value(tree, Problem.Body.class));
    }

    private static boolean passes(Answer answer) {
        if (!Problem.isTriedAgain(answer.status) || answer.retryAfter.compareTo(RETRY_AFTER_MAX) > 0)
            return false;
        try {
            Problem problem = problemOf(answer);
            return problem != null && problem.passes();
        } catch (TickwheelException.BadAnswer error) {
            return true; // a proxy's page
        }
    }

    private void sleep(int tried, Duration wanted) {
        long most = Math.min(PAUSE_MAX.toMillis(), pause.toMillis() << Math.min(tried - 1, 20));
        try {
            Thread.sleep(wanted.toMillis() + ThreadLocalRandom.current().nextLong(most + 1));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new UncheckedIOException(new IOException("interrupted", error));
        }
    }

    /** The body of the answer with success. */
    byte[] send(Call call) {
        boolean wasLost = false;
        for (int tried = 1;; tried++) {
            boolean mayTryAgain = call.isRepeatable && tried <= retries;
            Duration wanted = Duration.ZERO;
            try {
                Answer answer = attempt(call);
                boolean isEarly = call.mayBeEarly && answer.status == 409;
                if (!mayTryAgain || !(isEarly || passes(answer)))
                    return take(call, answer, wasLost);
                wasLost = wasLost || (answer.status != 429 && answer.status != 503);
                wanted = answer.retryAfter;
            } catch (IOException error) {
                wasLost = true;
                if (!mayTryAgain)
                    throw new TickwheelException.Unreachable(call.method + " " + url + call.path + ": " + error, error);
            }
            sleep(tried, wanted);
        }
    }

    /** `wasLost`: a try before may have taken effect. */
    private static byte[] take(Call call, Answer answer, boolean wasLost) {
        Problem problem = problemOf(answer);
        if (problem == null)
            return answer.body;
        if (wasLost && problem instanceof Problem.VersionMismatch)
            throw new TickwheelException.UnknownOutcome(problem);
        // The try whose answer was lost has cancelled it.
        if (wasLost && call.isCancel && problem.timer().map(timer -> timer.state().equals("cancelled")).orElse(false))
            return Json.bytes(Json.tree(answer.body, answer.status).get("timer"));
        throw problem;
    }

    JsonNode tree(Call call) {
        return Json.tree(send(call), 200);
    }

    <T> T value(Call call, Class<T> kind) {
        return Json.value(tree(call), kind);
    }
}

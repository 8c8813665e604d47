package tickwheel;

import java.time.Instant;
import java.util.List;

/** What calls answer besides timers and items. */
public final class Answers {
    private Answers() {
    }

    /** A timer of a batch: it has an id, or a problem. */
    public record BatchResult(String id, boolean existed, Problem problem) {
    }

    /** A timer that a call for many could not be applied to. */
    public record Failure(String id, String key, String type, int status) {
    }

    public record Many(int cancelled, int rescheduled, int touched, int alreadyFiring, List<Failure> failures) {
    }

    /** The timers that an event ended; with a type, the event failed. */
    public record Completion(int cancelled, int fired, int alreadyFiring, String type, int status) {
    }

    public record Completions(int cancelled, int fired, int alreadyFiring, int failed, List<Completion> results) {
    }

    /** A past firing of a timer that repeats; the outcome is done, failed, ended or dropped. */
    public record Run(Instant planned, Instant started, Long durationMs, int attempts, String outcome, Integer status,
            String error) {
    }

    /** Timers due in each unit from {@code from} on. */
    public record Forecast(String unit, int count, Instant from, Instant until, List<Integer> due, int overdue,
            boolean complete) {
    }

    /** Dead letters with one origin and one error. */
    public record DeadGroup(String origin, String error, int count, Instant first, Instant last, String example) {
    }

    public record DeadResult(int redriven, int deleted, int failed, String next) {
    }
}

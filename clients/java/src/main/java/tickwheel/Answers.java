package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.List;
import java.util.Map;

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

    public record Many(int cancelled, int rescheduled, int touched, int fired, int paused, int resumed,
            int alreadyFiring, List<Failure> failures) {
    }

    /** Since when, why and until when something is paused; until null: a call resumes it. */
    public record Paused(Instant since, String note, Instant until) {
    }

    /** What a pause, resume or reset of a queue or a target answers; reset counts breakers that were closed. */
    public record Hold(String name, Paused paused, int reset) {
    }

    /** A date of a calendar, or a range of dates; the name may be null. */
    public record Day(String date, String name) {
    }

    /** A calendar of holidays; its scope is "tenant", or "all" for one of the daemon's settings. */
    public record Calendar(String name, String scope, Instant since, List<Day> days) {
    }

    public record Queue(String name, int ready, int leased, int workers, boolean moreOnDisk, Instant oldest,
            Paused paused) {
    }

    /** The queues that a call shows; complete: all of them. */
    public record Queues(List<Queue> queues, boolean complete) {
    }

    public record Target(String target, int waiting, int inFlight, String breaker, int failures, String lastError,
            Paused paused) {
    }

    /** The targets that a call shows; complete: all of them. */
    public record Targets(List<Target> targets, boolean complete) {
    }

    public record Group(String state, String origin, String label, long count) {
    }

    /** Live timers; complete: all of them have been read. */
    public record Count(long count, List<Group> groups, boolean complete) {
    }

    /** The timers that an event ended; with a type, the event failed. */
    public record Completion(int cancelled, int fired, int alreadyFiring, String type, int status) {
    }

    public record Completions(int cancelled, int fired, int alreadyFiring, int failed, List<Completion> results) {
    }

    /**
     * A past firing of a timer that repeats; the outcome is done, failed, ended, dropped, skipped or begun. One that has begun
     * is a timer of its own.
     */
    public record Run(Instant planned, Instant until, Integer count, Instant started, Long durationMs, int attempts,
            String outcome, Integer status, String error, String timer) {
    }

    /** What became of an attempt: done, failed or ended; ms says what the time went to, answer has its beginning. */
    public record Delivery(String id, Instant at, String timer, String key, String target, int attempt, String outcome,
            Integer status, Map<String, Long> ms, String error, String answer) {
    }

    /** A timer that repeats, with its last firings; last is never, ok, failed or skipped. */
    public record ScheduleState(String id, Instant due, String state, String key, String target,
            Map<String, String> labels, JsonNode schedule, int attempts, Paused paused, Instant next, String heldBy,
            String last, int failures, int skipped, List<Run> runs) {
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

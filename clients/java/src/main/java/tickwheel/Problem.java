package tickwheel;

import java.util.List;
import java.util.Optional;

/** An error of the server (RFC 9457); its subclasses are those that a program tells apart. */
public class Problem extends TickwheelException {
    private static final long serialVersionUID = 1;
    private final transient Body body;

    /** A wrong field, by its JSON pointer, or a wrong parameter. */
    public record FieldError(String pointer, String parameter, String detail) {
    }

    record Body(String type, String title, int status, String detail, List<FieldError> errors, Timer timer) {
        String shortType() {
            return type.substring(type.lastIndexOf('/') + 1);
        }
    }

    Problem(Body body) {
        super(body.shortType(), body.status + " " + body.shortType() + ": "
                + (body.detail == null ? body.title : body.detail), null);
        this.body = body;
    }

    public int status() {
        return body.status;
    }

    public String detail() {
        return body.detail == null ? "" : body.detail;
    }

    /** Every wrong field. */
    public List<FieldError> errors() {
        return body.errors == null ? List.of() : body.errors;
    }

    /** The timer that the problem is about, where the server sends it. */
    public Optional<Timer> timer() {
        return Optional.ofNullable(body.timer);
    }

    /** Whether it may be over after a pause. */
    boolean passes() {
        return isTriedAgain(body.status)
                && !List.of("too-many", "unreadable", "corrupt").contains(body.shortType());
    }

    static boolean isTriedAgain(int status) {
        return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
    }

    static Problem of(Body body) {
        return switch (body.shortType()) {
            case "invalid" -> new Invalid(body);
            case "not-found" -> new NotFound(body);
            case "gone" -> new Gone(body);
            case "already-firing" -> new AlreadyFiring(body);
            case "key-in-use" -> new KeyInUse(body);
            case "version-mismatch" -> new VersionMismatch(body);
            case "unauthenticated", "forbidden" -> new Unauthorized(body);
            case "too-many", "rate-exceeded" -> new TooMany(body);
            default -> body.status >= 500 ? new Unavailable(body) : new Problem(body);
        };
    }

    /** 422: a field is wrong; {@link #errors} names it. */
    public static final class Invalid extends Problem {
        private static final long serialVersionUID = 1;

        Invalid(Body body) {
            super(body);
        }
    }

    /** 404. */
    public static final class NotFound extends Problem {
        private static final long serialVersionUID = 1;

        NotFound(Body body) {
            super(body);
        }
    }

    /** 410: the timer is fired, cancelled or dead; {@link #timer} has its last state. */
    public static final class Gone extends Problem {
        private static final long serialVersionUID = 1;

        Gone(Body body) {
            super(body);
        }
    }

    /** 409: the timer is being delivered and can be neither changed nor cancelled. */
    public static final class AlreadyFiring extends Problem {
        private static final long serialVersionUID = 1;

        AlreadyFiring(Body body) {
            super(body);
        }
    }

    /** 409: a live timer with other fields has the key; it is {@link #timer}. */
    public static final class KeyInUse extends Problem {
        private static final long serialVersionUID = 1;

        KeyInUse(Body body) {
            super(body);
        }
    }

    /** 412: the timer has another version. */
    public static final class VersionMismatch extends Problem {
        private static final long serialVersionUID = 1;

        VersionMismatch(Body body) {
            super(body);
        }
    }

    /** 401 or 403: no valid token, or one without the scope. */
    public static final class Unauthorized extends Problem {
        private static final long serialVersionUID = 1;

        Unauthorized(Body body) {
            super(body);
        }
    }

    /** 429, after all retries. */
    public static final class TooMany extends Problem {
        private static final long serialVersionUID = 1;

        TooMany(Body body) {
            super(body);
        }
    }

    /** A status from 500 on, after all retries. After "io" or "in-doubt" a change may have been made. */
    public static final class Unavailable extends Problem {
        private static final long serialVersionUID = 1;

        Unavailable(Body body) {
            super(body);
        }
    }
}

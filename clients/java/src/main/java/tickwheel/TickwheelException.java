package tickwheel;

/** The base of all errors of this package: {@link Problem} for those of the server, and three without an answer. */
public class TickwheelException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String type;

    TickwheelException(String type, String message, Throwable cause) {
        super(message, cause);
        this.type = type;
    }

    /** The last part of the problem's type, such as "key-in-use". */
    public String type() {
        return type;
    }

    /** No answer came, and the request has no effect that a repetition would double. */
    public static final class Unreachable extends TickwheelException {
        private static final long serialVersionUID = 1;

        Unreachable(String message, Throwable cause) {
            super("unreachable", message, cause);
        }
    }

    /**
     * The answer to a conditional change was lost, and the condition no longer holds: this change took effect, or
     * another one. Read the timer.
     */
    public static final class UnknownOutcome extends TickwheelException {
        private static final long serialVersionUID = 1;

        UnknownOutcome(Throwable cause) {
            super("unknown-outcome", "the answer to a conditional change was lost; read the timer", cause);
        }
    }

    /** The answer is not one of tickwheeld: a proxy, or another server. */
    public static final class BadAnswer extends TickwheelException {
        private static final long serialVersionUID = 1;

        BadAnswer(String message, Throwable cause) {
            super("bad-answer", message, cause);
        }
    }
}

package tickwheel.testing;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * An extension of JUnit 5 that starts a {@link VirtualTickwheel} for each test with such a parameter, and ends it.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final TickwheelExtension TICKWHEEL = new TickwheelExtension("2027-03-01T00:00Z");
 *
 * @Test
 * void reminders(VirtualTickwheel tickwheel) {
 *     tickwheel.advance(Duration.ofDays(31));
 * }
 * }</pre>
 */
public final class TickwheelExtension implements ParameterResolver, AfterEachCallback {
    private static final ExtensionContext.Namespace PLACE = ExtensionContext.Namespace.create(TickwheelExtension.class);
    private final String start;
    private final String[] flags;

    /** The clock starts at the beginning of 2027. */
    public TickwheelExtension() {
        this("2027-01-01T00:00Z");
    }

    /** The clock starts at {@code start}; {@code flags} are further flags of tickwheeld. */
    public TickwheelExtension(String start, String... flags) {
        this.start = start;
        this.flags = flags.clone();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == VirtualTickwheel.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getStore(PLACE).getOrComputeIfAbsent(VirtualTickwheel.class,
                type -> VirtualTickwheel.start(start, flags));
    }

    @Override
    public void afterEach(ExtensionContext context) {
        VirtualTickwheel made = context.getStore(PLACE).remove(VirtualTickwheel.class, VirtualTickwheel.class);
        if (made != null)
            made.close();
    }
}

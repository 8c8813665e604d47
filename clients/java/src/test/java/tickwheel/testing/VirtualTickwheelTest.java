package tickwheel.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.RegisterExtension;
import tickwheel.Create;

/** A virtual clock: a month of reminders, retries of days, and what is refused. */
@EnabledIfEnvironmentVariable(named = "TICKWHEEL_CONTRACT", matches = ".+")
class VirtualTickwheelTest {
    @RegisterExtension
    static final TickwheelExtension TICKWHEEL = new TickwheelExtension("2027-03-01T00:00Z");

    /** 9:00 in Berlin is 8:00 UTC before 28 March, and 7:00 from then on. */
    @Test
    void aMonthOfDailyRemindersOverADstChange(VirtualTickwheel tickwheel) {
        tickwheel.client().create(Create.to(tickwheel.url("/remind")).cron("0 9 * * *", "Europe/Berlin"));
        VirtualTickwheel.Advanced advanced = tickwheel.advance(Duration.ofDays(31));
        assertEquals(new VirtualTickwheel.Advanced(Instant.parse("2027-04-01T00:00:00Z"), 31, 31, 0), advanced);
        assertEquals(advanced.now(), tickwheel.now());
        assertEquals(IntStream.rangeClosed(1, 31)
                .mapToObj(day -> Instant.parse(String.format("2027-03-%02dT0%d:00:00Z", day, day < 28 ? 8 : 7))).toList(),
                tickwheel.delivered("/remind").stream().map(VirtualTickwheel.Delivery::due).toList());
        assertEquals(List.of(), tickwheel.delivered("/other"));
    }

    @Test
    void retriesOfDays(VirtualTickwheel tickwheel) {
        tickwheel.answer(path -> tickwheel.received(path).size() < 2 ? 503 : 200);
        tickwheel.client().create(Create.to(tickwheel.url("/a")).after(Duration.ofHours(1))
                .set("retry", Map.of("base", "1d", "cap", "1d")));
        assertEquals(1, tickwheel.advanceToNext().failed());
        assertEquals(Instant.parse("2027-03-01T01:00:00Z"), tickwheel.now());
        VirtualTickwheel.Advanced rest = tickwheel.advanceTo(Instant.parse("2027-03-09T00:00:00Z"));
        assertEquals(List.of(1, 1), List.of(rest.delivered(), rest.failed()));
        assertEquals(List.of(1, 2, 3),
                tickwheel.received("/a").stream().map(VirtualTickwheel.Delivery::attempt).toList());
    }

    @Test
    void whatIsRefused(VirtualTickwheel tickwheel) {
        assertThrows(IllegalArgumentException.class, () -> tickwheel.advanceTo(Instant.parse("2020-01-01T00:00:00Z")));
        IllegalStateException error = assertThrows(IllegalStateException.class,
                () -> VirtualTickwheel.start("2027-13-01T00:00Z").close());
        assertTrue(error.getMessage().contains("no month 13"), error.getMessage());
    }
}

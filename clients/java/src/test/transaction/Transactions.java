import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.support.TransactionTemplate;
import tickwheel.Client;
import tickwheel.Create;
import tickwheel.Transaction;

/**
 * The calls that clients/contract/outbox.py expects, in transactions of JDBC and of Spring. package_test.py compiles it with
 * the driver and Spring, which the library does not depend on.
 */
public class Transactions {
    private static final Client TIMERS = Client.of("http://127.0.0.1:1"); // nothing is asked of it
    private static final String URL = System.getenv("JDBC_URL");

    private interface Calls {
        void run(Connection connection) throws SQLException;
    }

    /** Runs the calls in a transaction, and commits unless they fail. */
    private interface Begin {
        void run(Calls calls) throws SQLException;
    }

    private static final class RolledBack extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private static void all(Transaction outbox, String name) throws SQLException {
        long first = outbox.create(Create.to("queue:a").set("after", "1h30m").key(name)
                .payload(Map.of("text", System.getenv("OUTBOX_TEXT"), "n", 1.5)).labels(Map.of("team", "it's"))
                .set("retry", Map.of("base", "2s")).watch(name + "-paid"));
        // Rounded up: never early.
        outbox.put(name, Create.to("queue:b").at(Instant.parse("2099-01-31T07:00:00.000000001Z")));
        outbox.touch(name, Duration.ofDays(30));
        outbox.create(Create.to(List.of("queue:c", "queue:d")).set("every", "1d")
                .body(new byte[] {0, (byte) 255}, "application/x-two"));
        outbox.complete(name + "-paid");
        check(outbox.cancel(name) > first && first > 0, "rows have rising numbers");
    }

    private static void check(boolean holds, String what) {
        if (!holds)
            throw new AssertionError(what);
    }

    private static void both(String name, Begin begin) throws SQLException {
        begin.run(connection -> {
            connection.createStatement().executeUpdate("INSERT INTO orders VALUES (1, 'reserved')");
            all(TIMERS.inTransaction(connection), name);
        });
        try {
            begin.run(connection -> {
                TIMERS.inTransaction(connection).create(Create.to("queue:a").after(Duration.ofHours(1)).key(name + "-not"));
                throw new RolledBack();
            });
            throw new AssertionError("it was not rolled back");
        } catch (RolledBack expected) {
            return;
        }
    }

    private static void inJdbc(Calls calls) throws SQLException {
        try (Connection connection = DriverManager.getConnection(URL)) {
            connection.setAutoCommit(false);
            calls.run(connection);
            connection.commit();
        }
    }

    /** What is wrong fails before a statement is sent, so that the transaction is still good. */
    private static void refused(Connection connection) throws SQLException {
        Transaction outbox = TIMERS.inTransaction(connection);
        for (String after : List.of("soon", "1m1h", "", "30", "-1h", "99999999999999999999w", "9000000000000000w"))
            fails(() -> outbox.create(Create.to("queue:a").set("after", after)));
        for (Object at : List.of("infinity", "2099-01-31T09:00:00", ""))
            fails(() -> outbox.create(Create.to("queue:a").set("at", at)));
        fails(() -> outbox.put("k", Create.to("queue:a").after(Duration.ofHours(1)).key("other")));
        outbox.cancel("still-a-transaction");
        throw new RolledBack();
    }

    private interface Call {
        void run() throws SQLException;
    }

    private static void fails(Call call) throws SQLException {
        try {
            call.run();
        } catch (IllegalArgumentException expected) {
            return;
        }
        throw new AssertionError("it was taken");
    }

    public static void main(String[] arguments) throws SQLException {
        both("jdbc", Transactions::inJdbc);
        DriverManagerDataSource source = new DriverManagerDataSource(URL);
        TransactionTemplate template = new TransactionTemplate(new DataSourceTransactionManager(source));
        both("spring", calls -> template.executeWithoutResult(status -> {
            try {
                calls.run(DataSourceUtils.getConnection(source));
            } catch (SQLException error) {
                throw new AssertionError(error);
            }
        }));
        try {
            inJdbc(Transactions::refused);
        } catch (RolledBack expected) {
            return;
        }
        throw new AssertionError("nothing was refused");
    }
}

// The steps of generators_test.py with the client that openapi-generator makes for Java.
import java.net.URI;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.QueuesApi;
import org.openapitools.client.api.TimersApi;
import org.openapitools.client.model.*;

public class Steps {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    interface Call {
        Object call() throws ApiException;
    }

    static void refused(int status, Call call) {
        try {
            throw new AssertionError(call.call());
        } catch (ApiException problem) {
            check(problem.getCode() == status, problem);
        }
    }

    public static void main(String[] args) throws ApiException {
        String queue = args[2];
        ApiClient client = new ApiClient();
        client.updateBaseUri(args[0]);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + args[1]));
        TimersApi timers = new TimersApi(client);
        QueuesApi queues = new QueuesApi(client);

        Timer made = timers.createTimer(new TimerCreate().after("1h").target("queue:" + queue).key(queue)
            .payload(Map.of("order", 42)).labels(Map.of("queue", queue))
            .retry(new RetryPolicy().maxAttempts(3).base("2s")), null);
        check(made.getState() == TimerState.SCHEDULED && made.getRetry().getMaxAttempts() == 3, made);

        TimerPatch patch = new TimerPatch().after("2h");
        Timer changed = timers.patchTimer(made.getId(), patch, "\"1\"");
        check(changed.getVersion() == 2 && changed.getDue().isAfter(made.getDue()), changed);
        refused(412, () -> timers.patchTimer(made.getId(), patch, "\"1\""));

        TimerPage page = timers.listTimers(null, null, null, List.of("queue:" + queue), null, null, null, null, null, 10, null);
        check(page.getTimers().size() == 1 && page.getNext() == null, page);

        check(timers.deleteTimer(made.getId(), null).getState() == TimerState.CANCELLED, made);
        refused(410, () -> timers.getTimer(made.getId()));

        timers.createTimer(new TimerCreate().at(OffsetDateTime.now()).target("queue:" + queue)
            .payload(Map.of("order", 43)), null);
        QueueItems leased = queues.leaseItems(queue, new QueueLease().wait("10s").lease("1m"));
        QueueItem item = leased.getItems().get(0);
        check(((Map<?, ?>) item.getPayload()).get("order").equals(43), item);
        QueueResults done = queues.ackItems(queue, new QueueAck().receipts(List.of(item.getReceipt())));
        check(done.getOk() == 1, done);
    }
}

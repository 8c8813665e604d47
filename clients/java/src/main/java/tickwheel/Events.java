package tickwheel;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.NoSuchElementException;
import tickwheel.Transport.Call;

/**
 * What happens to timers, as it happens, without an end: {@link #next} waits for the next event. It goes on behind a
 * connection that is lost. Close it to end the stream, also from another thread.
 */
public final class Events implements Iterator<Events.Event>, AutoCloseable {
    /**
     * What happened, see docs/api.md#watching. Of the type "lost": events are missing here. The timer is as it was
     * then, without payload and headers; the name is that of a queue or a target.
     */
    public record Event(String id, String type, Timer timer, String name) {
    }

    private final Transport transport;
    private final String path;
    private String last;
    private BufferedReader lines;
    private volatile boolean isClosed;

    Events(Transport transport, String path, String last) {
        this.transport = transport;
        this.path = path;
        this.last = last;
    }

    private void open(int tried) {
        Call call = new Call("GET", path).header("Accept", "text/event-stream");
        if (last != null)
            call.header("Last-Event-ID", last);
        lines = new BufferedReader(new InputStreamReader(transport.open(call, tried), StandardCharsets.UTF_8));
    }

    private Event read() throws IOException {
        String id = null;
        String type = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("id: "))
                id = line.substring(4);
            else if (line.startsWith("event: "))
                type = line.substring(7);
            if (!line.startsWith("data: "))
                continue;
            JsonNode tree = Json.tree(line.substring(6).getBytes(StandardCharsets.UTF_8), 200);
            last = id == null ? last : id;
            return Json.value(((ObjectNode) tree).put("id", id).put("type", type), Event.class);
        }
        throw new IOException("the stream has ended");
    }

    @Override
    public boolean hasNext() {
        return !isClosed;
    }

    @Override
    public Event next() {
        for (int tried = 1; !isClosed; tried++) {
            try {
                if (lines == null)
                    open(tried);
                return read();
            } catch (IOException error) {
                lines = null;
                if (!isClosed)
                    transport.waitAfter(tried, path, error);
            }
        }
        throw new NoSuchElementException();
    }

    @Override
    public void close() {
        isClosed = true;
        try {
            if (lines != null)
                lines.close();
        } catch (IOException error) {
            // it is of no use any more
        }
    }
}

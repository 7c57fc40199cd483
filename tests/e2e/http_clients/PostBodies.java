import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;

/**
 * Posts the same document in one segment and in two, with its length and in chunks, twice on each connection. The client
 * is the JDK's as it comes, which asks for HTTP/2 by "Connection: Upgrade, HTTP2-Settings". A line for each response:
 * status and body.
 */
public class PostBodies {
    public static void main(String[] arguments) throws Exception {
        byte[] body = arguments[1].getBytes(StandardCharsets.UTF_8);
        List<BodyPublisher> publishers = List.of(
            BodyPublishers.ofByteArray(body),
            BodyPublishers.fromPublisher(BodyPublishers.ofByteArray(body)),
            BodyPublishers.fromPublisher(new Halves(body), body.length),
            BodyPublishers.fromPublisher(new Halves(body)));
        for (BodyPublisher publisher : publishers) {
            HttpClient client = HttpClient.newHttpClient();
            for (int turn = 0; turn < 2; turn++) {
                HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0]))
                    .header("Content-Type", "application/json")
                    .POST(publisher)
                    .build();
                HttpResponse<String> response = client.send(request, BodyHandlers.ofString());
                System.out.println(response.statusCode() + " " + response.body().strip());
            }
        }
        System.exit(0); // the threads of the clients are in no hurry
    }

    /** The second half follows when the first has left. */
    record Halves(byte[] body) implements Flow.Publisher<ByteBuffer> {
        @Override
        public void subscribe(Flow.Subscriber<? super ByteBuffer> subscriber) {
            subscriber.onSubscribe(new Flow.Subscription() {
                private int sent = 0;

                @Override
                public void request(long count) {
                    int half = sent++;
                    if (half > 1) {
                        return;
                    }
                    int middle = body.length / 2;
                    byte[] part = half == 0
                        ? Arrays.copyOfRange(body, 0, middle)
                        : Arrays.copyOfRange(body, middle, body.length);
                    CompletableFuture.delayedExecutor(half * 50L, TimeUnit.MILLISECONDS).execute(() -> {
                        subscriber.onNext(ByteBuffer.wrap(part));
                        if (half == 1) {
                            subscriber.onComplete();
                        }
                    });
                }

                @Override
                public void cancel() {
                    sent = 2;
                }
            });
        }
    }
}

package tickwheel;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.function.Function;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Checks the signatures of webhooks (Standard Webhooks). May be shared by threads. */
public final class WebhookVerifier {
    private static final int BODY_BYTES_MAX = 2 << 20; // the service sends at most 1 MiB
    private static final long TOLERANCE_SECONDS = 300;
    private static final int SIGNATURES_MAX = 8; // by private keys; the service sends at most 2
    /** How the DER of an Ed25519 key begins (RFC 8410). */
    private static final String PUBLIC_KEY_START = "302a300506032b6570032100";
    private final SecretKeySpec key;
    private final PublicKey publicKey; // in place of the key

    /** The secret of the service, whsec_ and base64; or the public key of one that signs by a private key, whpk_ and base64. */
    public WebhookVerifier(String secret) {
        if (secret.startsWith("whpk_")) {
            key = null;
            publicKey = publicKey(Base64.getDecoder().decode(secret.substring(5)));
            return;
        }
        publicKey = null;
        byte[] bytes = Base64.getDecoder().decode(secret.startsWith("whsec_") ? secret.substring(6) : secret);
        if (bytes.length == 0)
            throw new IllegalArgumentException("the secret is empty");
        key = new SecretKeySpec(bytes, "HmacSHA256");
    }

    private static PublicKey publicKey(byte[] bytes) {
        if (bytes.length != 32)
            throw new IllegalArgumentException("the public key is not of 32 bytes");
        try {
            return KeyFactory.getInstance("Ed25519").generatePublic(
                    new X509EncodedKeySpec(HexFormat.of().parseHex(PUBLIC_KEY_START + HexFormat.of().formatHex(bytes))));
        } catch (GeneralSecurityException error) {
            throw new IllegalArgumentException("the public key is none of Ed25519", error);
        }
    }

    private boolean isSignedByKey(byte[] start, byte[] body, String signatures) {
        return Arrays.stream(signatures.split(" ")).filter(one -> one.startsWith("v1a,")).limit(SIGNATURES_MAX)
                .anyMatch(one -> {
                    try {
                        Signature signature = Signature.getInstance("Ed25519");
                        signature.initVerify(publicKey);
                        signature.update(start);
                        signature.update(body);
                        return signature.verify(Base64.getDecoder().decode(one.substring(4)));
                    } catch (GeneralSecurityException | IllegalArgumentException error) {
                        return false;
                    }
                });
    }

    private byte[] sign(byte[] start, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(key);
            mac.update(start);
            return ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("every Java has HmacSHA256", error);
        }
    }

    /** Whether the body, as received, was signed within the last five minutes. `header` is null for what is missing. */
    public boolean isValid(Function<String, String> header, byte[] body) {
        String id = header.apply("webhook-id");
        String sent = header.apply("webhook-timestamp");
        String signatures = header.apply("webhook-signature");
        if (id == null || id.isEmpty() || sent == null || signatures == null || !sent.matches("[0-9]{1,12}"))
            return false;
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(sent)) > TOLERANCE_SECONDS)
            return false;
        byte[] start = (id + "." + sent + ".").getBytes(StandardCharsets.UTF_8);
        if (publicKey != null)
            return isSignedByKey(start, body, signatures);
        byte[] wanted = sign(start, body);
        boolean isValid = false;
        for (String one : signatures.split(" "))
            isValid |= MessageDigest.isEqual(wanted, one.getBytes(StandardCharsets.UTF_8));
        return isValid;
    }

    /**
     * A handler for com.sun.net.httpserver that calls the next one for valid webhooks only, with their body to read;
     * others are answered 401 or 413. In a servlet filter call {@link #isValid}.
     */
    public HttpHandler handler(HttpHandler next) {
        return exchange -> {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
            if (body.length > BODY_BYTES_MAX) {
                refuse(exchange, 413);
            } else if (!isValid(exchange.getRequestHeaders()::getFirst, body)) {
                refuse(exchange, 401);
            } else {
                exchange.setStreams(new ByteArrayInputStream(body), null);
                next.handle(exchange);
            }
        };
    }

    private static void refuse(HttpExchange exchange, int status) throws java.io.IOException {
        exchange.sendResponseHeaders(status, -1);
        exchange.close();
    }
}

package interop;

/** What a scenario saw is not what it had to see. */
final class Mismatch extends RuntimeException {
    Mismatch(String message) {
        super(message);
    }
}

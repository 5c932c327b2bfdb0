package interop;

/** One conversation with the broker; throws when something is not as it must be. */
@FunctionalInterface
interface Scenario {
    void run(Context context) throws Exception;
}

package bench;

/** One kind of load; returns when its measured time is over and its queues are empty again. */
@FunctionalInterface
interface Workload {
    void run(Bench bench) throws Exception;
}

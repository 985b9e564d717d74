import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's log on a directory: a command a line, an answer a line.
 * Arguments: directory, clean, recovery point, log start offset, topic id, then configs k=v.
 */
public class LogOracle {
    /** What is due at once is done at once, what is due later never. */
    static class Now implements Scheduler {
        public void startup() {}
        public void shutdown() {}
        public void resizeThreadPool(int size) {}
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (delay <= 0 && period < 0) task.run();
            return THREADS.schedule(() -> {}, 0, TimeUnit.SECONDS);
        }
    }

    static final ScheduledExecutorService THREADS = Executors.newScheduledThreadPool(1);
    static UnifiedLog log;

    public static void main(String[] args) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int i = 5; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            configs.put(pair[0], pair[1]);
        }
        log = UnifiedLog.create(new File(args[0]), new LogConfig(configs),
            Long.parseLong(args[3]), Long.parseLong(args[2]), new Now(), new BrokerTopicStats(),
            Time.SYSTEM, 900000, new ProducerStateManagerConfig(86400000, false), 600000,
            new LogDirFailureChannel(1), Boolean.parseBoolean(args[1]),
            Optional.of(Uuid.fromString(args[4])));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println(answer(words));
            } catch (Exception error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
    }

    static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "leader":
            case "coordinator": {
                AppendOrigin origin = words[0].equals("leader") ? AppendOrigin.CLIENT
                    : AppendOrigin.COORDINATOR;
                LogAppendInfo info = log.appendAsLeader(records(words[2]), Integer.parseInt(words[1]),
                    origin, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
                return info.firstOffset() + " " + info.lastOffset();
            }
            case "follower":
                return "" + log.appendAsFollower(records(words[2]), Integer.parseInt(words[1])).lastOffset();
            case "truncate":
                return "" + log.truncateTo(Long.parseLong(words[1]));
            case "high_watermark":
                return "" + log.updateHighWatermark(Long.parseLong(words[1]));
            case "log_start":
                return "" + log.maybeIncrementLogStartOffset(Long.parseLong(words[1]),
                    LogStartOffsetIncrementReason.ClientRecordDeletion);
            case "retention":
                return "" + log.deleteOldSegments();
            case "timestamp":
                return log.fetchOffsetByTimestamp(Long.parseLong(words[1]), Optional.empty())
                    .timestampAndOffsetOpt().map(found -> found.timestamp + " " + found.offset + " "
                        + found.leaderEpoch.orElse(-1)).orElse("none");
            case "epoch":
                return log.endOffsetForEpoch(Integer.parseInt(words[1]))
                    .map(found -> found.epoch() + " " + found.offset()).orElse("none");
            case "read": {
                var read = log.read(Long.parseLong(words[1]), Integer.parseInt(words[2]),
                    FetchIsolation.LOG_END, true).records;
                ByteBuffer buffer = ByteBuffer.allocate(read.sizeInBytes());
                if (read instanceof FileRecords) ((FileRecords) read).readInto(buffer, 0);
                return HexFormat.of().formatHex(buffer.array(), 0, buffer.limit());
            }
            case "state": {
                var producers = new TreeMap<Long, String>();
                log.activeProducers().forEach(p -> producers.put(p.producerId(), p.producerEpoch()
                    + "/" + p.lastSequence() + "/" + p.currentTxnStartOffset()));
                return log.logStartOffset() + " " + log.logEndOffset() + " "
                    + log.leaderEpochCache().epochEntries().stream()
                        .map(e -> e.epoch() + "@" + e.startOffset()).toList()
                    + " " + producers;
            }
            case "close":
                log.close();
                return "closed";
            default:
                return "what?";
        }
    }
}

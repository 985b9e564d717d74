import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Apache Kafka's own record batches. `write` prints batches, `read` prints what is in batches.
 *
 * <p>Lines of write: name, a space, the batch in hex. Lines of read, for each line of hex: the
 * header's fields, then a line for every record, then a dot.
 */
public class RecordsOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) write();
        else read();
        OUT.flush();
    }

    private static void write() {
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            print(type.name + "-plain", MemoryRecords.withRecords(codec, samples(3)));
            print(type.name + "-long", MemoryRecords.withRecords(codec, samples(3000)));
            print(type.name + "-idempotent",
                MemoryRecords.withIdempotentRecords(codec, 4711L, (short) 3, 17, samples(5)));
            print(type.name + "-transactional",
                MemoryRecords.withTransactionalRecords(codec, 4711L, (short) 3, 17, samples(5)));
            print(type.name + "-append-time", appendTime(codec));
        }
        print("control-commit", MemoryRecords.withEndTransactionMarker(
            42L, 1000L, 7, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
        print("control-abort", MemoryRecords.withEndTransactionMarker(
            42L, 1000L, 7, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.ABORT, 9)));
    }

    private static MemoryRecords appendTime(Compression codec) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16),
            RecordBatch.MAGIC_VALUE_V2, codec, TimestampType.LOG_APPEND_TIME, 100L, 123456789L);
        for (SimpleRecord record : samples(4)) builder.append(record);
        return builder.build();
    }

    /** The same in tests/interop/test_records_java.py. */
    private static SimpleRecord[] samples(int count) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++) {
            byte[] key = i % 4 == 1 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 5 == 2 ? null : "välue ".repeat(i % 50).getBytes(StandardCharsets.UTF_8);
            Header[] headers = new Header[i % 3];
            for (int h = 0; h < headers.length; h++) {
                byte[] content = h == 1 ? null : new byte[] {(byte) i, 0, (byte) 255};
                headers[h] = new RecordHeader("hé" + h, content);
            }
            records[i] = new SimpleRecord(1700000000000L + (i * 7919L) % 1000 - 500, key, value, headers);
        }
        return records;
    }

    private static void print(String name, MemoryRecords records) {
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(bytes);
        OUT.println(name + " " + HEX.formatHex(bytes));
    }

    private static void read() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                show(MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line))));
            } catch (Exception refused) {
                OUT.println("refused " + refused.getClass().getSimpleName());
            }
            OUT.println(".");
        }
    }

    private static void show(MemoryRecords records) {
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            OUT.println(String.join(" ", "batch", "" + batch.baseOffset(), "" + batch.lastOffset(),
                "" + batch.partitionLeaderEpoch(), "" + batch.compressionType().id,
                "" + batch.timestampType().id, "" + batch.isTransactional(), "" + batch.isControlBatch(),
                "" + batch.maxTimestamp(), "" + batch.producerId(), "" + batch.producerEpoch(),
                "" + batch.baseSequence(), "" + batch.countOrNull(), "" + batch.isValid()));
            for (Record record : batch) show(record);
        }
    }

    private static void show(Record record) {
        StringBuilder line = new StringBuilder("record " + record.offset() + " " + record.timestamp());
        line.append(" ").append(hex(record.hasKey() ? record.key() : null));
        line.append(" ").append(hex(record.hasValue() ? record.value() : null));
        for (Header header : record.headers()) {
            byte[] value = header.value();
            line.append(" ").append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append("=").append(hex(value == null ? null : ByteBuffer.wrap(value)));
        }
        OUT.println(line);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HEX.formatHex(bytes);
    }
}

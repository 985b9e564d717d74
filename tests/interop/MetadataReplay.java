import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Replays metadata records, a value in hex a line; at a line "image" prints the records of the
 * image so far, then "end".
 */
public class MetadataReplay {
    static final MetadataRecordSerde SERDE = MetadataRecordSerde.INSTANCE;

    public static void main(String[] args) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        Scanner lines = new Scanner(System.in);
        for (long offset = 0; lines.hasNextLine(); offset++) {
            String line = lines.nextLine();
            if (line.equals("image")) {
                image = delta.apply(new MetadataProvenance(offset, 1, 0, true));
                delta = new MetadataDelta.Builder().setImage(image).build();
                print(image);
                continue;
            }
            byte[] value = HexFormat.of().parseHex(line);
            ApiMessageAndVersion record =
                SERDE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(value)), value.length);
            switch (MetadataRecordType.fromId(record.message().apiKey())) {
                case BEGIN_TRANSACTION_RECORD, END_TRANSACTION_RECORD -> { } // the loader's, not the delta's
                default -> delta.replay(record.message());
            }
        }
    }

    static void print(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image).build());
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBufferAccessor buffer =
                new ByteBufferAccessor(java.nio.ByteBuffer.allocate(SERDE.recordSize(record, cache)));
            SERDE.write(record, cache, buffer);
            System.out.println(HexFormat.of().formatHex(buffer.buffer().array()));
        }
        System.out.println("end");
    }
}

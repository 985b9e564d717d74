import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** What Apache's partition change builder makes of each line: a record in hex, or "none". */
public class PartitionChanges {
    static final MetadataRecordSerde SERDE = MetadataRecordSerde.INSTANCE;

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            Optional<ApiMessageAndVersion> built = change(json.readTree(lines.nextLine())).build();
            System.out.println(built.map(PartitionChanges::hex).orElse("none"));
        }
    }

    static PartitionChangeBuilder change(JsonNode line) {
        byte[] value = HexFormat.of().parseHex(line.get("partition").asText());
        PartitionRecord record = (PartitionRecord) SERDE.read(
            new ByteBufferAccessor(java.nio.ByteBuffer.wrap(value)), value.length).message();
        List<Integer> active = ids(line.get("active"));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            new PartitionRegistration(record), record.topicId(), record.partitionId(), active::contains,
            MetadataVersion.latestProduction(), line.get("min_isr").asInt(), line.get("elr").asBoolean());
        builder.setElection(PartitionChangeBuilder.Election.valueOf(line.get("election").asText()));
        builder.setDefaultDirProvider(broker -> new Uuid(7, broker));
        builder.setUncleanShutdownReplicas(ids(line.get("unclean")));
        if (line.has("isr")) builder.setTargetIsr(ids(line.get("isr")));
        if (line.has("replicas")) builder.setTargetReplicas(ids(line.get("replicas")));
        if (line.has("removing")) builder.setTargetRemoving(ids(line.get("removing")));
        if (line.has("adding")) builder.setTargetAdding(ids(line.get("adding")));
        if (line.has("recovery")) {
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of((byte) line.get("recovery").asInt()));
        }
        return builder;
    }

    static List<Integer> ids(JsonNode array) {
        List<Integer> found = new ArrayList<>();
        array.forEach(item -> found.add(item.asInt()));
        return found;
    }

    static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor buffer =
            new ByteBufferAccessor(java.nio.ByteBuffer.allocate(SERDE.recordSize(record, cache)));
        SERDE.write(record, cache, buffer);
        return HexFormat.of().formatHex(buffer.buffer().array());
    }
}

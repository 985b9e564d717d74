package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Scanner;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache's controller without its log: each line is a record to replay or a request to decide on,
 * and is answered by a line with the records that were decided (and replayed) and the response.
 * It is in Kafka's own package because what decides there is visible nowhere else.
 */
public class ControllerDecisions {
    static final MetadataRecordSerde SERDE = MetadataRecordSerde.INSTANCE;
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    final FeatureControlManager features;
    final ClusterControlManager cluster;
    final ConfigurationControlManager configs;
    final ReplicationControlManager replication;
    long nextOffset = 0;

    ControllerDecisions() {
        LogContext log = new LogContext();
        SnapshotRegistry registry = new SnapshotRegistry(log);
        features = new FeatureControlManager.Builder().setSnapshotRegistry(registry).setQuorumFeatures(
            new QuorumFeatures(1, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(1))).build();
        cluster = new ClusterControlManager.Builder().setClusterId("c").setSnapshotRegistry(registry)
            .setFeatureControlManager(features)
            .setBrokerShutdownHandler((id, clean, records) -> replication().handleBrokerShutdown(id, clean, records))
            .build();
        configs = new ConfigurationControlManager.Builder().setSnapshotRegistry(registry)
            .setFeatureControl(features).setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema())
            .setStaticConfig(Map.of()).setNodeId(1).build();
        replication = new ReplicationControlManager.Builder().setSnapshotRegistry(registry)
            .setFeatureControl(features).setClusterControl(cluster).setConfigurationControl(configs)
            .setMaxElectionsPerImbalance(1000).build();
        cluster.activate();
    }

    ReplicationControlManager replication() {
        return replication;
    }

    public static void main(String[] args) throws Exception {
        ControllerDecisions controller = new ControllerDecisions();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            System.out.println(JSON.writeValueAsString(controller.answer(JSON.readTree(lines.nextLine()))));
        }
    }

    ObjectNode answer(JsonNode line) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        try {
            for (ApiMessageAndVersion record : decide(line, answer)) {
                records.add(HEX.formatHex(bytes(record)));
                replay(record.message());
            }
            if (answer.path("stops").asBoolean()) {
                cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(line.get("id").asInt(), nextOffset - 1);
            }
        } catch (org.apache.kafka.common.errors.ApiException e) {
            answer.put("error", Errors.forException(e).code());
        }
        return answer;
    }

    List<ApiMessageAndVersion> decide(JsonNode line, ObjectNode answer) {
        ByteBufferAccessor body = new ByteBufferAccessor(java.nio.ByteBuffer.wrap(
            HEX.parseHex(line.path("body").asText(""))));
        short version = (short) line.path("version").asInt();
        int id = line.path("id").asInt();
        List<ApiMessageAndVersion> records = new ArrayList<>();
        switch (line.get("op").asText()) {
            case "record": {
                replay(SERDE.read(body, body.remaining()).message());
                return List.of();
            }
            case "register": {
                Map<String, Short> levels = new HashMap<>(features.finalizedFeatures(Long.MAX_VALUE).featureMap());
                levels.put("kraft.version", (short) 0);
                var result = cluster.registerBroker(new BrokerRegistrationRequestData(body, version), nextOffset,
                    new FinalizedControllerFeatures(levels, Long.MAX_VALUE), true);
                answer.put("response", result.response().epoch());
                return result.records();
            }
            case "heartbeat": {
                var result = replication.processBrokerHeartbeat(new BrokerHeartbeatRequestData(body, version),
                    cluster.registerBrokerRecordOffset(id).orElse(0));
                BrokerHeartbeatReply reply = result.response();
                answer.putArray("response").add(reply.isCaughtUp()).add(reply.isFenced())
                    .add(reply.shouldShutDown());
                answer.put("stops", reply.inControlledShutdown());
                return result.records();
            }
            case "fence": {
                replication.handleBrokerFenced(id, records);
                cluster.heartbeatManager().fence(id);
                return records;
            }
            case "unregister": return replication.unregisterBroker(id).records();
            case "balance": return replication.maybeBalancePartitionLeaders().records();
            case "unclean": return replication.maybeElectUncleanLeaders().records();
            case "list": {
                var topics = new ListPartitionReassignmentsRequestData(body, version).topics();
                answer.put("response", hex(replication.listPartitionReassignments(topics, Long.MAX_VALUE), version));
                return List.of();
            }
            default: return request(line.get("op").asText(), body, version, answer);
        }
    }

    List<ApiMessageAndVersion> request(String op, ByteBufferAccessor body, short version, ObjectNode answer) {
        ControllerResult<? extends ApiMessage> result = switch (op) {
            case "elect" -> replication.electLeaders(new ElectLeadersRequestData(body, version));
            case "reassign" -> replication.alterPartitionReassignments(
                new AlterPartitionReassignmentsRequestData(body, version));
            case "assign" -> replication.handleAssignReplicasToDirs(
                new AssignReplicasToDirsRequestData(body, version));
            case "alter" -> replication.alterPartition(new ControllerRequestContext(
                new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS,
                OptionalLong.empty()), new AlterPartitionRequestData(body, version));
            default -> throw new IllegalArgumentException(op);
        };
        answer.put("response", hex(result.response(), version));
        return result.records();
    }

    void replay(ApiMessage message) {
        if (message instanceof TopicRecord record) replication.replay(record);
        else if (message instanceof PartitionRecord record) replication.replay(record);
        else if (message instanceof PartitionChangeRecord record) replication.replay(record);
        else if (message instanceof RegisterBrokerRecord record) cluster.replay(record, nextOffset);
        else if (message instanceof UnregisterBrokerRecord record) cluster.replay(record);
        else if (message instanceof BrokerRegistrationChangeRecord record) cluster.replay(record);
        else if (message instanceof ConfigRecord record) configs.replay(record);
        else if (message instanceof FeatureLevelRecord record) features.replay(record);
        else throw new IllegalArgumentException(message.toString());
        nextOffset++;
    }

    static String hex(ApiMessage message, short version) {
        java.nio.ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }

    static byte[] bytes(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor buffer =
            new ByteBufferAccessor(java.nio.ByteBuffer.allocate(SERDE.recordSize(record, cache)));
        SERDE.write(record, cache, buffer);
        return buffer.buffer().array();
    }
}

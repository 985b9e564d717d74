import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints every topic and broker config of Apache Kafka, a JSON object a line; or, given "values",
 * what it says to each {scope, name, value} of its input: null, or the complaint.
 */
public class ConfigDefinitions {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, String> MODES = DynamicBrokerConfig.dynamicConfigUpdateModes();

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
            while (lines.hasNextLine()) {
                JsonNode line = JSON.readTree(lines.nextLine());
                String complaint = complaint(line.get("scope").asText(), line.get("name").asText(), line.get("value").asText());
                System.out.println(JSON.writeValueAsString(complaint));
            }
            return;
        }
        for (ConfigDef.ConfigKey key : sorted(LogConfig.configKeys())) {
            Map<String, Object> row = row("topic", key);
            row.put("synonyms", topicSynonyms(key.name));
            System.out.println(JSON.writeValueAsString(row));
        }
        for (ConfigDef.ConfigKey key : sorted(AbstractKafkaConfig.CONFIG_DEF.configKeys())) {
            Map<String, Object> row = row("broker", key);
            row.put("synonyms", DynamicBrokerConfig.brokerConfigSynonyms(key.name, true));
            row.put("mode", MODES.getOrDefault(key.name, "read-only"));
            System.out.println(JSON.writeValueAsString(row));
        }
    }

    static String complaint(String scope, String name, String value) {
        Map<String, ConfigDef.ConfigKey> keys =
            scope.equals("topic") ? LogConfig.configKeys() : AbstractKafkaConfig.CONFIG_DEF.configKeys();
        ConfigDef.ConfigKey key = keys.get(name);
        try {
            new ConfigDef().define(key).parse(Map.of(name, value));
            return null;
        } catch (ConfigException complaint) {
            return complaint.getMessage();
        }
    }

    static Iterable<ConfigDef.ConfigKey> sorted(Map<String, ConfigDef.ConfigKey> keys) {
        return new TreeMap<>(keys).values();
    }

    static Map<String, Object> row(String scope, ConfigDef.ConfigKey key) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("scope", scope);
        row.put("name", key.name);
        row.put("type", key.type.name());
        row.put("required", !key.hasDefault());
        Object value = key.hasDefault() ? key.defaultValue : null;
        row.put("default", value == null ? null : ConfigDef.convertToString(value, key.type));
        row.put("valid", key.validator == null ? null : key.validator.toString());
        row.put("internal", key.internalConfig);
        return row;
    }

    static List<String> topicSynonyms(String name) {
        List<ConfigSynonym> found = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(name, List.of());
        return found.stream().map(synonym -> synonym.name() + "=" + synonym.converter().apply("1")).toList();
    }
}

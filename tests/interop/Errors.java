import org.apache.kafka.common.errors.RetriableException;

/** Prints a line for each error code: the code, its name, whether a client may retry. */
public class Errors {
    public static void main(String[] args) {
        for (var error : org.apache.kafka.common.protocol.Errors.values())
            System.out.println(error.code() + " " + error.name() + " "
                + (error.exception() instanceof RetriableException));
    }
}

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What an agent runs: java.net.http as it comes. It knows a placeholder for a key, and nothing of Oncegate. Called with
 * the client's name; prints what it saw, as JSON.
 */
public class Agent {
    private static final String PLACEHOLDER = "placeholder-of-the-agent";
    private static final String DESK = "https://desk.test/v1/";
    private static final Pattern ID = Pattern.compile("\"id\": *\"([^\"]*)\"");
    private final HttpClient client = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws InterruptedException {
        String name = arguments[0];
        Agent agent = new Agent();
        List<String> saw = new ArrayList<>();
        saw.add(member("success", agent.send("POST", "tickets", name + "-success")));
        saw.add(member("success again", agent.send("POST", "tickets", name + "-success")));
        saw.add(member("lost", agent.send("POST", "tickets", name + "-lost")));
        saw.add(member("lost again", agent.send("POST", "tickets", name + "-lost")));
        saw.add(member("denied", agent.send("DELETE", "tickets/" + name + "-denied", name + "-denied")));
        saw.add(member("pending", agent.send("POST", "releases", name + "-pending")));
        String version = quoted(Runtime.version().feature() + "");
        System.out.println("{\"version\": " + version + ", \"saw\": {" + String.join(", ", saw) + "}}");
    }

    private String send(String method, String path, String name) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(DESK + path))
                .header("Authorization", "Bearer " + PLACEHOLDER)
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString("{\"reference\": " + quoted(name) + "}"))
                .build();
        try {
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() >= 400) {
                return failed("status " + response.statusCode(), "response.body()", response.body());
            }
            Matcher id = ID.matcher(response.body());
            return id.find()
                    ? "{\"answer\": " + quoted(id.group(1)) + ", \"kind\": null, \"texts\": {}}"
                    : failed("no id", "response.body()", response.body());
        } catch (IOException error) {
            return failed(error.getClass().getSimpleName(), "getMessage()", String.valueOf(error.getMessage()));
        }
    }

    private static String failed(String kind, String place, String text) {
        String texts = "{" + member(place, quoted(text)) + "}";
        return "{\"answer\": null, \"kind\": " + quoted(kind) + ", \"texts\": " + texts + "}";
    }

    private static String member(String name, String value) {
        return quoted(name) + ": " + value;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\' || one < ' ') {
                quoted.append(String.format("\\u%04x", (int) one));
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }
}

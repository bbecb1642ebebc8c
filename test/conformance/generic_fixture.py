"""What the generic server scenarios of the conformance suite ask for. They test the SDK under our server: the
way it is built, mounted and served is the kit's, these contents are only for the suite."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

from robot_mcp_kit.server.tools import make_tool

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _png() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


def add_contents(server: MCPServer) -> None:
    """Tools with each kind of content, resources, prompts and completion."""

    @server.tool(description="Answers plain text.")
    async def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool(description="Answers an image.")
    async def test_image_content() -> list[ImageContent]:
        return [_png()]

    @server.tool(description="Answers a sound.")
    async def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]

    @server.tool(description="Answers an embedded resource.")
    async def test_embedded_resource() -> list[EmbeddedResource]:
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @server.tool(description="Answers text, an image and a resource.")
    async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        mixed = _embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return [TextContent(type="text", text="Multiple content types test:"), _png(), mixed]

    @server.tool(description="Always fails.")
    async def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    @server.tool(description="Reports progress three times.")
    async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
        for step in (0, 50, 100):
            await ctx.report_progress(step, 100, f"Completed step {step} of 100")
            await asyncio.sleep(0.05)
        return "progress reported"

    async def schema_tool(arguments: dict[str, Any]) -> Any:
        return json.dumps(arguments)

    server._tool_manager._tools["json_schema_2020_12_tool"] = make_tool(
        "json_schema_2020_12_tool",
        schema_tool,
        title="Schema",
        description="Tool with JSON Schema 2020-12 features",
        schema=SCHEMA_2020,
        annotations=ToolAnnotations(read_only_hint=True),
    )

    @server.tool(description="Takes one argument that is in a header too.")
    async def test_headers(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    ) -> str:
        return region

    @server.resource("test://static-text", mime_type="text/plain")
    async def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    async def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    async def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource", mime_type="text/plain")
    async def watched() -> str:
        return "Watched resource content"

    @server.prompt(description="A simple prompt.")
    async def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with two arguments.")
    async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource in it.")
    async def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        return [
            UserMessage(_embedded(resourceUri, "Embedded resource content for testing.")),
            UserMessage("Please process the embedded resource above."),
        ]

    @server.prompt(description="A prompt with an image in it.")
    async def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(_png()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[], total=0, has_more=False)


class Answer(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


def _titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": const, "title": title} for const, title in pairs]


VALUES = _titled(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option"))


class Enums(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": VALUES})
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]}
    )
    untitledMulti: list[str] = Field(
        json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2", "option3"]}}
    )
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": VALUES}})


def add_requests_to_the_client(server: MCPServer) -> None:
    """Tools of the handshake protocols that ask their client for something while they run."""

    @server.tool(description="Writes three log messages.")
    async def test_tool_with_logging(ctx: Context[Any, Any]) -> str:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.session.send_log_message(level="info", data=words, related_request_id=ctx.request_id)
            await asyncio.sleep(0.05)
        return "Tool with logging executed successfully"

    @server.tool(description="Asks the client's model.")
    async def test_sampling(prompt: str, ctx: Context[Any, Any]) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
        result = await ctx.session.create_message(
            messages=[message], max_tokens=100, related_request_id=ctx.request_id
        )
        return f"LLM response: {getattr(result.content, 'text', '')}"

    async def elicited(ctx: Context[Any, Any], message: str, schema: type[BaseModel]) -> str:
        result = await ctx.elicit(message=message, schema=schema)
        data = getattr(result, "data", None)
        content = data.model_dump_json() if isinstance(data, BaseModel) else "{}"
        return f"action={result.action}, content={content}"

    @server.tool(description="Asks the user.")
    async def test_elicitation(message: str, ctx: Context[Any, Any]) -> str:
        return f"User response: {await elicited(ctx, message, Answer)}"

    @server.tool(description="Asks the user, with defaults.")
    async def test_elicitation_sep1034_defaults(ctx: Context[Any, Any]) -> str:
        return f"Elicitation completed: {await elicited(ctx, 'Please fill in', Defaults)}"

    @server.tool(description="Asks the user to choose.")
    async def test_elicitation_sep1330_enums(ctx: Context[Any, Any]) -> str:
        return f"Elicitation completed: {await elicited(ctx, 'Please choose', Enums)}"


def _ask(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(words: str, max_tokens: int = 100) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=words))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def add_rounds(server: MCPServer) -> None:
    """Tools and a prompt of the 2026-07-28 protocol that need an answer from the client and a second call."""

    def need(state: str | None = None, **requests: Any) -> InputRequiredResult:
        return InputRequiredResult(input_requests=requests, request_state=state)

    @server.tool(description="Needs the user's name.")
    async def test_input_required_result_elicitation(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        answer = (ctx.input_responses or {}).get("user_name")
        content = getattr(answer, "content", None)
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            return need(user_name=_ask("What is your name?", name="string"))
        return f"Hello, {content['name']}!"

    @server.tool(description="Needs the client's model.")
    async def test_input_required_result_sampling(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        answer: Any = (ctx.input_responses or {}).get("capital_question")
        if answer is None:
            return need(capital_question=_sample("What is the capital of France?"))
        return str(answer.content.text)

    @server.tool(description="Needs the client's roots.")
    async def test_input_required_result_list_roots(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        answer: Any = (ctx.input_responses or {}).get("client_roots")
        if answer is None:
            return need(client_roots=ListRootsRequest())
        return ", ".join(str(root.uri) for root in answer.roots)

    @server.tool(description="Needs a confirmation, and its own state back.")
    async def test_input_required_result_request_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        if not ctx.input_responses or ctx.request_state != "round-1":
            return need("round-1", confirm=_ask("Please confirm", ok="boolean"))
        return "state-ok"

    @server.tool(description="Needs a confirmation; a state that was changed is refused.")
    async def test_input_required_result_tampered_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        if not ctx.input_responses:
            return need("sealed", confirm=_ask("Please confirm", ok="boolean"))
        return "state-ok"

    @server.tool(description="Needs three things at once.")
    async def test_input_required_result_multiple_inputs(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if set(answers) < {"user_name", "greeting", "client_roots"}:
            return need(
                "round-1",
                user_name=_ask("What is your name?", name="string"),
                greeting=_sample("Generate a greeting", 50),
                client_roots=ListRootsRequest(),
            )
        return "all there"

    @server.tool(description="Needs two rounds.")
    async def test_input_required_result_multi_round(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "step2" in answers and ctx.request_state == "round-2":
            return "both rounds done"
        if "step1" in answers and ctx.request_state == "round-1":
            return need("round-2", step2=_ask("Step 2: What is your favorite color?", color="string"))
        return need("round-1", step1=_ask("Step 1: What is your name?", name="string"))

    @server.tool(description="Asks only what the client can answer.")
    async def test_input_required_result_capabilities(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        capabilities = ctx.request_context.session.client_capabilities
        if capabilities is not None and capabilities.sampling is not None and not ctx.input_responses:
            return need(question=_sample("Say something"))
        return "nothing to ask"

    @server.prompt(description="Needs the context from the user.")
    async def test_input_required_result_prompt(ctx: Context[Any, Any]) -> Any:
        if not ctx.input_responses:
            return need(user_context=_ask("What context should the prompt use?", context="string"))
        return "Use the context that was given."

    @server.tool(description="Needs a client with sampling.")
    async def test_missing_capability(ctx: Context[Any, Any]) -> str:
        capabilities = ctx.request_context.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            data = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(-32021, "the client does not declare sampling", data)
        return "it does"

    @server.tool(description="Streams progress, then needs an answer.")
    async def test_streaming_elicitation(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        await ctx.report_progress(1, 2)
        if not ctx.input_responses:
            return need(user_name=_ask("What is your name?", name="string"))
        return "done"

    @server.tool(description="Tells that the tools have changed.")
    async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
        await ctx.notify_tools_changed()
        return "told"

    @server.tool(description="Tells that the prompts have changed.")
    async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
        await ctx.notify_prompts_changed()
        return "told"

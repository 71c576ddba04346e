"""A LangChain chain: a retriever over texts of a house, and a chat model of your choice.

Without a chat model it shows what one would be told:

    python examples/langchain_chain.py

With `pip install langchain` and the package of a provider, that provider's model answers:

    python examples/langchain_chain.py --chat-model ollama:qwen3
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_onnx_embeddings import OnnxEmbeddings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

NOTES = {
    "heating": "The boiler is serviced every October; Mrs. Keller has the contract.",
    "water": "When water leaks, shut the main valve in the cellar, behind the white panel.",
    "bins": "Paper is collected on the first Monday of the month, glass goes to the corner.",
    "keys": "A spare key lies with the neighbours on the second floor; call them first.",
    "internet": "The router is in the hall; unplug it for a minute when the internet fails.",
}
QUESTIONS = ["Who repairs the heating?", "A pipe has burst, what do I do?"]
PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from these notes only, and say so when they do not help:\n{notes}"),
        ("human", "{question}"),
    ]
)


def retrieval(embeddings: OnnxEmbeddings, count: int = 2) -> Runnable[str, str]:
    """A question in, the notes that are nearest to it out."""
    documents = [Document(text, metadata={"about": about}) for about, text in NOTES.items()]
    store = InMemoryVectorStore.from_documents(documents, embeddings)
    return store.as_retriever(search_kwargs={"k": count}) | _joined


def chain(embeddings: OnnxEmbeddings, chat_model: BaseChatModel) -> Runnable[str, str]:
    """A question in, the chat model's answer out."""
    told = {"notes": retrieval(embeddings), "question": RunnablePassthrough()}
    return told | PROMPT | chat_model | StrOutputParser()


def _joined(documents: list[Document]) -> str:
    return "\n".join(f"- {document.page_content}" for document in documents)


def main() -> None:
    """Answer the questions, or show what a chat model would be told."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ask", action="append", metavar="QUESTION")
    parser.add_argument("--chat-model", metavar="PROVIDER:MODEL")
    options = parser.parse_args()
    embeddings = OnnxEmbeddings()
    for question in options.ask or QUESTIONS:
        print(f"\n{question}")
        if options.chat_model:
            from langchain.chat_models import init_chat_model

            print(chain(embeddings, init_chat_model(options.chat_model)).invoke(question))
        else:
            print(retrieval(embeddings).invoke(question))


if __name__ == "__main__":
    main()
